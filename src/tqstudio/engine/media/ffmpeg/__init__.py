"""The ffmpeg program: where it is, what hardware it can use, its command lines, its processes."""
