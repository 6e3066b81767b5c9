"""A large fleet as a model: one supervisor leads, others stand by, workers are on other machines.

Nothing real runs here. `leader` serves the requests of all workers, one by one, for a minute: how long they
wait, and how much slower that makes encodes. `course` takes these figures through millions of jobs, with
faults of lines, leaders, clocks and disks, and checks that each job is done once. Results: docs/scale.md.
"""
