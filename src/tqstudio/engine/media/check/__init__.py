"""Verifies encoded renditions and published ladders against their source."""
