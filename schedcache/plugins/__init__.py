"""kube-scheduler's default plugins: a module here is a plugin, under its upstream name; packages hold what plugins share.

`default_plugins` has the registry of them all.
"""
