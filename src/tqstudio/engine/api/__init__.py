"""The supervisor's HTTP API: one door for people, workers and anything with curl."""
