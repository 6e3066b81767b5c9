"""What a source holds: tracks, times, damage, identity."""
