"""The screen of the queue."""
