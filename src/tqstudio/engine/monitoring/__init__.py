"""Metrics, health and readiness of the supervisor, which wait for no disk."""
