"""Optional capabilities, a folder each, which the core does not know; `engine/wings.py` lists them."""
