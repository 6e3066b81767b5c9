"""Defines what a part of the supervisor is, and runs its periodic work."""
