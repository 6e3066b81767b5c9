"""What the screens show: kept in step with the supervisor, page by page."""
