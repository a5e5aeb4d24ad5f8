"""The command `schedcache`: the one place where everything is wired together."""

from schedcache.cli.entry import main

__all__ = ["main"]
