"""What is known of running jobs and is not stored: leases, progress, forecasts, the event stream."""
