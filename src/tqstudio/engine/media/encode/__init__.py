"""Encodes one ladder: ffmpeg runs, the state of each rendition, the poster."""
