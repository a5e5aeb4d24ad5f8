"""kopf as the source of events, for those who run an operator."""
