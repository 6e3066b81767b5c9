"""Shows what is in a ladder: its poster and film strip in few colours, and the bits of its segments."""
