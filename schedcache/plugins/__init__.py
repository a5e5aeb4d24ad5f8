"""kube-scheduler's default plugins, one module each, under their upstream names."""
