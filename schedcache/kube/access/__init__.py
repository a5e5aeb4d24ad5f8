"""What the API server knows about clients of ours: whose token it is, what they may do, which certificates count.

Promises: every answer is the API server's own, and no answer is an ApiError, never a guess. Tokens go into the body of a request and
nowhere else.

May touch: the transport. Nothing is kept here; `schedcache.server.access` has the caches and the limits.
"""
