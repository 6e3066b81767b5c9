"""Moves or deletes sources whose ladder is published."""
