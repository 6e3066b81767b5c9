"""Runs ffmpeg: finds the binary and usable hardware, builds command lines, manages processes."""
