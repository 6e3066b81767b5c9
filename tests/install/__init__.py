"""The wheel as people install it: with pip, uv and pipx, without a network, on each Python at hand."""
