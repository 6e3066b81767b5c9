"""Keeps the state of running jobs in memory: leases, progress, forecasts, the event stream."""
