"""Alerts: notifications of what happened, by webhook, apprise and commands."""
