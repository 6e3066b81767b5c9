"""Draws curves, bars, strips of segments and pictures as lines, for widgets and documents."""
