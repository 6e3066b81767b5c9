"""Finds the CRF that reaches a quality, and measures the quality of ladders."""
