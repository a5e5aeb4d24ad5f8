"""The watch path: an event source that keeps each kind in step with the API server, and the parts of it that kopf's source shares.

Promises: a sink sees the versions of each object in order, an add before its updates, a delete once; a new UID under an old name is
a delete and an add. A list is read to its end before any of it is applied. An object that cannot be read does not affect the others.
A sink that raises, or asks for it, gets everything again in one call. Nothing here blocks the event loop for long.

May touch: a `Transport`, and the clock, sleep and jitter of a `Timing`. What it has done is in `stats`, as plain numbers.

Start with `kind_watch`, the state machine of one kind, and `edges`, what follows from each way in which a watch can end; `reflector`
supervises all kinds, `store` holds the objects of one, `sweep` finds lost events. docs/watch.md has a diagram.
"""
