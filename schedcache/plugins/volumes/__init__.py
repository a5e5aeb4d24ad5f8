"""What the volume plugins share: a pod's claims, what a node can reach and attach, which volume a claim would get."""
