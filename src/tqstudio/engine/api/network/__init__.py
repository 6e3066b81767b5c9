"""Endpoints that callers from other machines need: tokens and uploads."""
