"""What a key, the palette and the footer can do, and to which jobs."""
