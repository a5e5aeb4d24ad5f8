"""What a running scheduler answers over HTTP: probes, metrics, the dump."""
