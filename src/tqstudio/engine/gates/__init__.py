"""Gates that hold the queue: full or unavailable disks, and a high load."""
