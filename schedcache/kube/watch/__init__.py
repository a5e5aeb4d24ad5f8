"""The watch path: an event source that keeps each kind in step with the API server, and the parts of it that kopf's source shares.

Promises: a sink is told of each object in the order of its versions, an add before its updates, a delete once; a new UID under an
old name is a delete and an add. A list is read to its end before any of it is applied. One object that cannot be read stops no
other. A sink that raises, or asks for it, gets everything afresh in one call. Nothing here blocks the event loop for long.

May touch: a `Transport`, and the clock, sleep and chance of a `Timing`. What it has done is in `stats`, as plain numbers.

Start with `kind_watch`, the state machine of one kind, and `edges`, what follows from each way in which a watch can end; `reflector`
minds all kinds, `store` is what is held of one, `sweep` finds what got lost. docs/watch.md draws the machine.
"""
