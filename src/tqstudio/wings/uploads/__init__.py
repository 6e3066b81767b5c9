"""Files that arrive over the network in parts: received durably, checked, and added to the queue."""
