"""The queue at work: claims, reports of workers, completion, lease ends, recovery, operations."""
