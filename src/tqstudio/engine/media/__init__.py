"""Probes, plans, encodes and checks media. Independent of jobs, HTTP and the database."""
