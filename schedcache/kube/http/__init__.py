"""Requests to the API server: credentials, one session for reads and watches, kept connections for small writes.

Promises: a request is sent once, except after a 429, and after a 401 with credentials that are other ones; both were not carried out.
Its end is decided in `outcomes` alone: RefusedError, UnavailableError or OutcomeUnknownError. Connections that nobody answers on are
found within 25 s. Tokens are renewed before they end, and no request waits for that unless it was refused.

May touch: sockets, files of credentials, threads for reading them. It starts nothing in the background but that renewal.

Start with `transport`; `outcomes` says what answers mean, `credentials` who we are, `write_connections` and `http_answer` how a write
travels. `answers` notes since when requests of one sort have failed.
"""
