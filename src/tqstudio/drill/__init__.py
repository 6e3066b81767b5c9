"""Fault injection: kills processes of a sandboxed studio at random and reports what was lost."""
