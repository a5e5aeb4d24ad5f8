"""A secondary Kubernetes scheduler whose cache, queue and plugins can be read, replayed and explained."""

__version__ = "0.1.0"
