"""Statuses by number: the meaning of the codes in a column of verdicts."""

from schedcache.framework.status import Status


class StatusTable:
    """Gives equal statuses the same number, in order of appearance; 0 is a pass.

    Statuses are found by hash, so a filter whose every answer is different costs no more than one with a single reason.
    """

    __slots__ = ("_code_of", "statuses")

    def __init__(self) -> None:
        self.statuses: list[Status | None] = [None]
        """By code; it only grows."""
        self._code_of: dict[Status | None, int] = {None: 0}

    def code(self, status: Status | None) -> int:
        """The number of the status, a new one if there is no equal status yet."""
        code = self._code_of.get(status)
        if code is None:
            code = self._code_of[status] = len(self.statuses)
            self.statuses.append(status)
        return code
