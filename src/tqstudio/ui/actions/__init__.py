"""The actions that keys, palette and footer offer, and the jobs they apply to."""
