"""Statements about what lasts longer than a job: videos, ladders, publications, drop folders."""
