"""Shows the running jobs as bands, each segment in the colour of the machine that made it."""
