"""Proof by breaking: a studio in a sandbox that is killed at random, and an account of what was lost."""
