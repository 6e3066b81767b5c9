"""Statements about jobs: admission, claims, transitions, outcomes, progress."""
