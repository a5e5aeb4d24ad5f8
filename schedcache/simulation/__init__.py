"""Offline clusters: objects in, decisions out."""

from schedcache.simulation.loading import InputError, SourcedObject, parse_objects
from schedcache.simulation.profiles import ProfileError
from schedcache.simulation.simulate import simulate
from schedcache.simulation.whatif import Answer, WhatIf

__all__ = ["Answer", "InputError", "ProfileError", "SourcedObject", "WhatIf", "parse_objects", "simulate"]
