"""Parts of PodTopologySpread: constraints, scores, and which events may help a pod that it rejected."""
