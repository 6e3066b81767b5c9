"""Segments on disk: collected from ffmpeg's output, checked, joined, stored, listed in playlists."""
