"""Commands about the studio itself: up, status, folders, workers, doctor, backup."""
