"""The engine: everything that runs without a terminal."""
