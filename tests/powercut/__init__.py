"""Power cuts: a real studio on a file system that forgets at once what it was not made to keep."""
