"""Starts or finds the supervisor of a command, and writes the texts of its systemd units."""
