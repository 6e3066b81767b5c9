"""The supervisor's HTTP API: for people, workers and anything with curl."""
