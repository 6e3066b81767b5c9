"""Colours, lines of cells, and minimal terminal output."""
