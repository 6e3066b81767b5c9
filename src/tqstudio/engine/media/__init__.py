"""Probing, planning, encoding and checking of media. Knows nothing of jobs, HTTP or the database."""
