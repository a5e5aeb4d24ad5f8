"""Requests to the API server: credentials, one session for reads, kept connections for small writes."""
