"""Words, numbers and symbols on the screens."""
