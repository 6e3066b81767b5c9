"""Text, number and symbol formatting for the screens."""
