"""Keeps a worker's lease, and sends its calls, progress and outcomes."""
