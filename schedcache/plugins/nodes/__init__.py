"""Questions about all nodes at once that several plugins ask: selectors, taints, topology domains, numbers kept by row."""
