"""Everything that talks over the network: an event source, the writes, and extenders, as the ports ask for them.

Promises: whatever the server answers, and if it does not answer, the program goes on, and a sink that may be wrong is known to be. Each
request succeeds or ends in one error of `schedcache.ports`, which says whether something was done. All retries follow one rule of backoff.

May touch: sockets, the files of credentials, the wall clock where Kubernetes wants times, threads for exec plugins and for kopf. It
knows `model` and `ports` and nothing of caches, queues or plugins. All of it is for one event loop and is used from there only.

Start with `load_credentials`, open a `Transport`, and give it to a `Reflector` (or a `KopfSource`), an `ApiBinder`, an
`ApiStatusWriter` and an `ApiEventRecorder`. The other parts are built on `http`, and `kopf` on `watch`; `extender`
is separate, and talks to extenders. docs/watch.md has the rest.
"""
