"""What is to be made of a source: profile, rungs, grid, keys, colours. Pure: values in, values out."""
