"""How requests to the API server went, as plain numbers: what client-go counts as `rest_client_*`."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence

SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
BYTES = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
"""Upper bounds of component-base's histograms (metrics/prometheus/restclient, 1.37)."""
NO_ANSWER = "<error>"
"""The code of a request that had no answer, client-go's word for it."""


class Distribution:
    """Values counted by the bounds that they do not exceed.

    Attributes:
        bounds: ascending.
        counts: how many values each bound has beyond the one before it, and one more number for those above all.
        total: the sum of the values.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


def _by_verb_and_host(bounds: Sequence[float]) -> defaultdict[tuple[str, str], Distribution]:
    return defaultdict(lambda: Distribution(bounds))


class RequestStats:
    """Requests by HTTP method and server; nothing is ever taken back.

    Attributes:
        host: of the server, with its port; what is counted from now on is counted for it.
        requests: (code, method, host) -> how many times a request was sent; each try counts, as in client-go.
        seconds: (method, host) -> from sending a request to the last byte of its answer; watches are left out.
        request_bytes: (method, host) -> sizes of bodies, 0 for none.
        response_bytes: likewise, of answers with a body; watches are left out.
        throttled_seconds: (method, host) -> how long requests waited for a rate limit of our own, most of them not at all.
    """

    def __init__(self) -> None:
        self.host = ""
        self.requests: Counter[tuple[str, str, str]] = Counter()
        self.seconds = _by_verb_and_host(SECONDS)
        self.request_bytes = _by_verb_and_host(BYTES)
        self.response_bytes = _by_verb_and_host(BYTES)
        self.throttled_seconds = _by_verb_and_host(SECONDS)

    def answered(self, method: str, status: int, seconds: float, sent: int, received: int) -> None:
        """A request had an answer, which was read to its end; sizes of the two bodies in bytes."""
        host = self.host
        self.requests[str(status), method, host] += 1
        self.seconds[method, host].add(seconds)
        self.request_bytes[method, host].add(sent)
        self.response_bytes[method, host].add(received)

    def watched(self, status: int) -> None:
        """A watch was answered; what comes on it is not counted here."""
        self.requests[str(status), "GET", self.host] += 1

    def failed(self, method: str, seconds: float | None = None) -> None:
        """A request had no answer, or none that could be read to its end; `seconds` None: it was a watch."""
        self.requests[NO_ANSWER, method, self.host] += 1
        if seconds is not None:
            self.seconds[method, self.host].add(seconds)

    def throttled(self, method: str, seconds: float) -> None:
        """A request waited for a rate limit."""
        self.throttled_seconds[method, self.host].add(seconds)
