"""The worker program: claims a job, makes its ladder, tells how it ended. Knows nothing but the API."""
