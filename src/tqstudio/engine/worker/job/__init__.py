"""Runs one attempt at a job: probe, encode, verify, and build the manifest."""
