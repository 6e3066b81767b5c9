"""Deletes videos: their ladders are set aside within the output for a while, then removed or brought back."""
