"""Whether an offered file becomes a job: known, changed, still whole, or queued."""
