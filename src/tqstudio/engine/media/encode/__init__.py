"""Encoding one ladder: runs of ffmpeg, the state of each rendition, the poster."""
