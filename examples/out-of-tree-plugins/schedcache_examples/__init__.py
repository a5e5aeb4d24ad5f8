"""Plugins for schedcache, as a package of its own."""
