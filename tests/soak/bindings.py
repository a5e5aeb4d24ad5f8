"""Which pod was bound how often, by the API server's audit log, read as it grows."""

from collections import Counter
from pathlib import Path

from schedcache.testing.audit import parse_audit_log


class Bindings:
    """Bindings that the API server has carried out.

    Attributes:
        succeeded: UID -> how often it was bound.
        answers: HTTP status -> how many bindings were answered with it.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = log.stat().st_size if log.exists() else 0
        self.succeeded: Counter[str] = Counter()
        self.answers: Counter[int] = Counter()

    def read(self) -> None:
        """Take in what was logged since the last time."""
        with self._log.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        # Most lines are about other things, and half an hour has a million.
        for event in parse_audit_log(b"".join(line for line in whole.splitlines(keepends=True) if b"/binding" in line)):
            if event.subresource == "binding":
                self.answers[event.status] += 1
                if event.status == 201:
                    self.succeeded[(event.body or {})["metadata"]["uid"]] += 1

    def twice(self) -> list[str]:
        """UIDs of pods that were bound more than once."""
        return [uid for uid, times in self.succeeded.items() if times > 1]
