"""The UI's data, kept in sync with the supervisor."""
