"""How callers reach the API: the server of the socket, and the TCP listener with its checks."""
