"""Words, numbers and symbols that commands and screens show."""
