"""The supervisor's process and machine: lock of the home, child processes, clock, memory and logs."""
