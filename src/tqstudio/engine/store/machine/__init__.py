"""Statements about the machines: supervisors, workers, quarantine, gates, measured speeds."""
