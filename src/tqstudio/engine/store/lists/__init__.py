"""Pages of the job list: orders, filters, search by name."""
