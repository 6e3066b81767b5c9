"""A gate for the store: every clause that guards a statement has a test that fails without it.

Each clause of each WHERE, CASE condition and sub-select is taken out of its statement in turn, and the tests
that run the statement have to notice. `docs/development/testing.md` says how to read the result.
"""
