"""Reads a source: its tracks, timestamps, damage, and the identity of the file."""
