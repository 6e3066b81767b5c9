"""The client side of the HTTP API: requests, answers, the client, and starting a supervisor."""
