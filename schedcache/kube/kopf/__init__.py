"""kopf as the source of events, for those who run an operator.

Promises: what `watch` promises of a source, though kopf tells of no deletion that happened while its watch was interrupted and of no
end of a list: a sweep of metadata compares, waits for kopf, and puts right what it has missed. kopf never writes to an object. It is
started again when it gives up or falls behind. Nothing depends on the wording of its log.

May touch: what `watch` may; kopf itself runs in a thread and an event loop of its own, or is an operator that is joined. The sink is
called from the caller's loop only. Importing it loads kopf, so nothing else in schedcache imports it at the start.

Start with `source`; `operator` runs kopf or joins it, `quiet` sifts what it logs.
"""
