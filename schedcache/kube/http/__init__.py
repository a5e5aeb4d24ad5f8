"""Requests to the API server: credentials, one session for reads and watches, kept connections for small writes.

Promises: a request is sent once, except after a 429, or after a 401 if there are new credentials; neither was carried out. `outcomes`
alone decides how it failed: RefusedError, UnavailableError or OutcomeUnknownError. Dead connections are found within 25 s. Tokens are
renewed before they expire, and no request waits for that unless it was refused.

May touch: sockets, files of credentials, threads for reading them. It starts nothing in the background but that renewal.

Start with `transport`; `outcomes` says what answers mean, `credentials` who we are, `write_connections` and `http_answer` how a write
travels. `answers` notes since when requests of one kind have failed. `port_forward` reaches a port of a pod.
"""
