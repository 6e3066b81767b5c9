"""Transcode Queue Studio: a terminal studio for video transcoding."""

__version__ = "0.1.0"
