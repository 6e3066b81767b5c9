"""What a release keeps of earlier ones: their API, their databases and their homes."""
