"""Following jobs until they end: progress on a terminal or as lines, Ctrl-C, summary."""
