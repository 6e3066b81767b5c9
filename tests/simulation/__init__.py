"""The queue in a world that is simulated: real engine, real store, seeded trouble.

Real are the supervisor and everything it is made of, SQLite, and the folders it publishes into. Simulated are
time, the worker processes, what carries their messages, and the people. One seed makes one course of events.
"""
