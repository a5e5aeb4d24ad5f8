"""Everything that talks over the network: an event source, the writes, and extenders, as the ports ask for them.

Promises: no answer of a server, and no silence, ends the program or leaves a sink wrong without it being known. Each request ends in a
success or in one error of `schedcache.ports`, which says whether something was done. What failed is tried again by one rule of backoff.

May touch: sockets, the files of credentials, the wall clock where Kubernetes wants times, threads for exec plugins and for kopf. It
knows `model` and `ports` and nothing of caches, queues or plugins. All of it is for one event loop and is used from there only.

Start with `load_credentials`, open a `Transport`, and give it to a `Reflector` (or a `KopfSource`), an `ApiBinder`, an
`ApiStatusWriter` and an `ApiEventRecorder`. `http` is below the other parts; `kopf` stands on `watch`; `extender` is apart, and
talks to extenders. docs/watch.md tells the rest.
"""
