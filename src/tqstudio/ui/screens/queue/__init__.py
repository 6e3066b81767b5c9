"""The queue view."""
