"""Workers of other machines: they copy the source of a job, and send its segments."""
