"""Collects segments from ffmpeg's output, checks, joins and stores them, and lists them in playlists."""
