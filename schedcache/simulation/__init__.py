"""Offline clusters: objects in, decisions out."""

from schedcache.simulation.profiles import ProfileError
from schedcache.simulation.simulate import simulate

__all__ = ["ProfileError", "simulate"]
