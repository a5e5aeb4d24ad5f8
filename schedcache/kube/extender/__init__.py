"""Extenders over HTTP: what they are asked, how, and how their answers are read.

Promises: a call takes no longer than the extender's time-out, and no more memory than a multiple of what was sent. It ends either in an
answer that has the expected form and is about what was asked, or in one ExtenderError that says why not. Nothing else is trusted:
redirects are not followed, and compressed answers are refused.

May touch: sockets, the files of certificates. It starts nothing in the background and does not retry.

Start with `client`; `wire` has the forms of requests and answers, `tls` the certificates.
"""
