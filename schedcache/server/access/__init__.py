"""Who asks on the HTTPS port, and whether they may: decided by the API server, remembered within bounds, refused in doubt.

Promises: nobody is answered who has not been recognised and allowed, except on paths that are open to all. Whatever has no answer is a
refusal, within a second. What is remembered is bounded in number and time, and what is asked of the API server is bounded for each
client before it is asked. Tokens are kept as keyed hashes, and nowhere else.

May touch: nothing but what it is given (`schedcache.ports.AccessReviews`).

Start with `guard`; `authentication` says who somebody is, `reviewing` what is asked and remembered.
"""
