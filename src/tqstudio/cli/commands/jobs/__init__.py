"""Commands about videos and their jobs: add, process, verify, queue, job."""
