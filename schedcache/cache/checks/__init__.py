"""Checks of what is kept up to date step by step against a recomputation from scratch, and when they run."""
