"""Shows throughput, speed, bytes and processor time of the past."""
