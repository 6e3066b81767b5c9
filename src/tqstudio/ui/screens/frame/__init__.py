"""What all views have: the base of screens, of lists and of texts."""
