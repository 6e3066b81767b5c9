"""The screen of one job."""
