"""Dialogs that ask before something is done."""
