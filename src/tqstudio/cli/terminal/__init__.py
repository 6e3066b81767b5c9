"""Prints answers, help and errors, completes values, and reads the options that commands share."""
