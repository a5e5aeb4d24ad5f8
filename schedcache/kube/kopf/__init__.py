"""kopf as the event source, for those who run an operator.

Promises: what `watch` promises of a source, although kopf reports neither deletions that happen while its watch is interrupted nor the
end of a list: a sweep of metadata compares, waits for kopf, and repairs what it has missed. kopf never writes to an object. It is
restarted when it gives up or falls behind. Nothing depends on the wording of its log.

May touch: what `watch` may; kopf itself runs in a thread and an event loop of its own, or is an operator that is joined. The sink is
called from the caller's loop only. Importing this package loads kopf, so nothing else in schedcache imports it at startup.

Start with `source`; `operator` runs kopf or joins it, `quiet` sifts what it logs.
"""
