"""Colours, lines of cells, and how few bytes they take on the wire."""
