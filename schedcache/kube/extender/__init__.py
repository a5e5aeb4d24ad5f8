"""Extenders over HTTP: what they are asked, how, and how their answers are read.

Promises: a call takes no longer than the extender's time-out and no more memory than a multiple of what was sent; however it ends, it
ends in an answer that is of the expected form and about what was asked, or in one ExtenderError that says why not. An extender is
believed nothing else: redirections are not followed, compression is not undone.

May touch: sockets, the files of certificates. It starts nothing in the background and tries nothing again.

Start with `client`; `wire` has the forms of requests and answers, `tls` the certificates.
"""
