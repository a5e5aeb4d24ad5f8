"""Parts of InterPodAffinity: its terms, and which events may help a pod that it rejected."""
