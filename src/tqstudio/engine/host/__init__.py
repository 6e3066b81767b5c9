"""The supervisor as a process of its machine: lock of the home, children, clock, memory and logs."""
