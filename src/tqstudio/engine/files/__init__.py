"""Access to files and volumes that may block, fill up, disappear or be replaced by a link."""
