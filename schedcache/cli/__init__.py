"""The command `schedcache`."""

from schedcache.cli.entry import main

__all__ = ["main"]
