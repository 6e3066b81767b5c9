"""What is claimed about speed, as programs: `python -m benchmarks`."""
