"""The supervisor's parts, and the supervisor itself behind its socket."""
