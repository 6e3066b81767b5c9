"""Checks of what was made against its source: renditions, published ladders, digests."""
