"""The HTTP API as its clients see it: requests, answers, the client and how a supervisor is started."""
