"""One attempt at one job, from probing the source to the ladder handed over."""
