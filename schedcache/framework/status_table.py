"""Statuses by number: what the codes of a column of verdicts stand for."""

from schedcache.framework.status import Status


class StatusTable:
    """Numbers equal statuses alike, as they come; 0 is a pass.

    Statuses are found by hash, so a filter whose every answer is different costs no more than one with a single reason.
    """

    __slots__ = ("_code_of", "statuses")

    def __init__(self) -> None:
        self.statuses: list[Status | None] = [None]
        """By code; it only grows."""
        self._code_of: dict[Status | None, int] = {None: 0}

    def code(self, status: Status | None) -> int:
        """The number of the status, a new one where there is none equal."""
        code = self._code_of.get(status)
        if code is None:
            code = self._code_of[status] = len(self.statuses)
            self.statuses.append(status)
        return code
