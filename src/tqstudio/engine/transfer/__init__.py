"""The files of a job, for workers that do not share the studio's file system."""
