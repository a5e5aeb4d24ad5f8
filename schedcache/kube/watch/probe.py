"""Small questions to the API server, at short intervals: whether it answers, and whether it still knows what we have seen of it.

An API server that hangs keeps its watches open, and shows only when a bookmark does not come. One that was restored from a backup
accepts a watch from a resourceVersion that it has not reached yet, and is silent. Neither ends a watch, so somebody has to ask.
"""

import asyncio
from collections.abc import Callable, Mapping
from itertools import count
from typing import NamedTuple

from schedcache.kube.http.transport import Transport
from schedcache.kube.settings import SourceSettings
from schedcache.kube.watch.contact import Contact
from schedcache.kube.watch.decoder import decode_metadata_page
from schedcache.kube.watch.edges import FAILURES, ending_of
from schedcache.kube.watch.kinds import Kind
from schedcache.kube.watch.pacing import Timing
from schedcache.kube.watch.sweep import METADATA_LIST, is_behind
from schedcache.ports import ApiError, Outage


class Followed(NamedTuple):
    """A kind that is followed: its connection, and the resourceVersion up to which its changes are known."""

    kind: Kind
    contact: Contact
    version: Callable[[], str]


class ServerProbe:
    """Asks for one object's metadata of one kind at a time: of the kinds whose watch was opened anew, else in turn.

    Lists are quorum reads, so their resourceVersion is never lower than any that was seen before of the same kind. If it is,
    the server's state was replaced by an older one.

    Args:
        transport: requests to the server.
        followed: by name of the kind.
        settings: interval and deadline.
        timing: clock and sleep.
        rolled_back: called with the kind's name, the version known, and the lower one that the server has.
        came_back: called with the first answer after some that did not come.
    """

    def __init__(
        self,
        transport: Transport,
        followed: Mapping[str, Followed],
        settings: SourceSettings,
        timing: Timing,
        rolled_back: Callable[[str, str, str], object],
        came_back: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._followed = followed
        self._settings = settings
        self._clock = timing.clock
        self._sleep = timing.sleep
        self._rolled_back = rolled_back
        self._came_back = came_back
        self._turn = count()
        # Kind -> the stream of which it is known that the server was not behind when it was opened.
        self._checked: dict[str, int] = {}
        self._answered_at: float | None = None
        self._failed = False
        self._why = ""
        # Kind -> the stream that was last asked about.
        self._asked: dict[str, int] = {}

    def outage(self) -> Outage | None:
        """For how long the server has not answered, and how the last question ended; None if the last one was answered."""
        if self._answered_at is None or not self._failed:
            return None
        return Outage(self._clock() - self._answered_at, self._why)

    def answers(self) -> bool:
        """Whether the last question was answered."""
        return self._answered_at is not None and not self._failed

    async def run(self) -> None:
        """Ask until cancelled; returns at once if there is to be no asking."""
        interval = self._settings.probe_interval_seconds
        if interval is None:
            return
        self._answered_at = self._clock()
        asked_at = self._clock()
        while True:
            await self._sleep(min(interval, self._settings.probe_look_seconds))
            # First those that were not asked about in vain: one kind that cannot be listed is no server that does not answer.
            due = sorted(self._unchecked(), key=self._is_news, reverse=True)
            if not any(map(self._is_news, due)):
                # A server in trouble is not asked more often than one that is well.
                if self._clock() - asked_at < interval:
                    continue
                in_turn = list(self._followed)[next(self._turn) % len(self._followed)]
                due = list(dict.fromkeys([in_turn, *due]))
            for name in due:
                asked_at = self._clock()
                if not await self._ask(name):
                    break

    def _unchecked(self) -> list[str]:
        """The kinds whose watch has been opened since it was last known that the server is not behind."""
        return [
            name
            for name, (_, contact, version) in self._followed.items()
            if contact.is_open() and version() and self._checked.get(name) != contact.opened_count
        ]

    def _is_news(self, name: str) -> bool:
        """Whether the kind's watch has been opened since it was last asked about."""
        return self._asked.get(name) != self._followed[name].contact.opened_count

    async def _ask(self, name: str) -> bool:
        """Whether there was an answer."""
        kind, contact, version = self._followed[name]
        known, stream = version(), contact.opened_count
        self._asked[name] = stream
        try:
            # The transport waits as long as a server that throttles asks it to.
            async with asyncio.timeout(self._settings.probe_timeout_seconds):
                found = await self._version_of(kind)
        except TimeoutError:
            self._failed, self._why = True, "no answer in time"
            return False
        except FAILURES as error:
            if not isinstance(error, ApiError) or error.may_pass:
                self._failed, self._why = True, ending_of(error).value
                return False
            # A refusal is an answer; what it means for the kind, its watch will show.
            found = ""
        self._answered_at = self._clock()
        self._checked[name] = stream
        if self._failed:
            self._failed = False
            self._came_back()
        # Unless all was listed again meanwhile.
        if is_behind(found, known) and not is_behind(version(), known):
            self._rolled_back(name, known, found)
        return True

    async def _version_of(self, kind: Kind) -> str:
        """Raises RefusedError, UnavailableError, BrokenStreamError."""
        # Without the kind's selector: for its first match the server may have to read through all that do not match.
        body = await self._transport.get(kind.path, {"limit": "1"}, accept=METADATA_LIST)
        _, resource_version, _ = decode_metadata_page(body)
        return resource_version
