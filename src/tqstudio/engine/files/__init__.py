"""Access to files and volumes that may block, fill up, vanish or be replaced by a link."""
