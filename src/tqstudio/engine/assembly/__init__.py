"""Builds the parts of the supervisor, and lets it lead, keep up and shut down."""
