"""Deletes videos: their ladders are moved within the output for a while, then removed or brought back."""
