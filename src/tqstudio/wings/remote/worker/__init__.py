"""A worker on another machine than its studio: it copies the source, encodes, and sends the segments."""
