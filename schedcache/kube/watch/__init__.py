"""The watch path: a reflector that keeps each kind in step with the API server, and the parts of it that kopf's source shares."""
