"""Following jobs until they end: progress on a terminal or in lines, Ctrl-C, the summary."""
