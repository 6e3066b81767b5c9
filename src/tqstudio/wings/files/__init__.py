"""Makes files to take away: a whole video in one file, from the segments of its ladder."""
