"""Plans the encode of a source: profile, rungs, grid, keys, missing runs."""
