"""Reviews with a memory: who a token belongs to, and what a user may do."""

import asyncio
import hashlib
import hmac
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TypeVar, cast

from schedcache.ports import AccessReviews, ApiError, UserInfo
from schedcache.server.access.bounded import Budget, Budgets, Kept
from schedcache.server.secure_settings import AccessSettings

TOKEN, ACCESS = "token", "access"
_PROVEN_SECONDS = 600.0
_CLIENTS = 4096
T = TypeVar("T")


class TooManyReviewsError(Exception):
    """More would have to be asked of the API server than this client, or all of them, may cause."""


class NoReviewError(Exception):
    """The API server gave no answer; the message says why, for the log."""


@dataclass(slots=True)
class ReviewStats:
    """(kind, result): kind is token or access; result hit, shared, asked, refused or failed. `seconds`: of each that was asked."""

    reviews: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: {TOKEN: 0.0, ACCESS: 0.0})


class Reviewer:
    """Asks the API server, unless it has just answered the same question, or is just being asked.

    A yes and a no are kept apart, so that no number of wrong tokens makes us forget the right ones. Limits hold for each client, and
    for all of them together. A token that was right lately is asked about again whatever others have used up, be they at the same
    address or at thousands.

    Args:
        reviews: asks.
        settings: the bounds.
        clock: seconds, monotonic.
    """

    def __init__(
        self, reviews: AccessReviews, settings: AccessSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reviews = reviews
        self._clock = clock
        self.stats = ReviewStats()
        most = settings.kept_reviews
        self._secret = secrets.token_bytes(32)
        self._users: Kept[bytes, UserInfo] = Kept(most, settings.token_ttl_seconds, clock)
        self._nobody: Kept[bytes, bool] = Kept(most, settings.token_ttl_seconds, clock)
        self._proven: Kept[bytes, bool] = Kept(most, _PROVEN_SECONDS, clock)
        self._allowed: Kept[Hashable, bool] = Kept(most, settings.authorized_ttl_seconds, clock)
        self._denied: Kept[Hashable, bool] = Kept(most, settings.unauthorized_ttl_seconds, clock)
        rate, burst = settings.client_reviews_per_second, settings.client_review_burst
        self._by_address: Budgets[str] = Budgets(rate, burst, _CLIENTS, clock)
        self._by_user: Budgets[str] = Budgets(rate, burst, _CLIENTS, clock)
        self._tokens = Budget(settings.reviews_per_second, settings.review_burst, clock)
        self._accesses = Budget(settings.reviews_per_second, settings.review_burst, clock)
        self._asking = asyncio.Semaphore(settings.concurrent_reviews)
        self._seconds = settings.review_seconds
        self._under_way: dict[Hashable, asyncio.Task[object]] = {}

    async def user_of(self, token: str, client: str) -> UserInfo | None:
        """Whose token it is, None if nobody's; `client` is an address. Raises TooManyReviewsError or NoReviewError."""
        # Keyed: who can read this memory cannot try tokens against it elsewhere.
        key = hmac.digest(self._secret, token.encode("utf-8", "surrogateescape"), hashlib.sha256)
        user = self._users.get(key)
        if user is not None or self._nobody.get(key):
            self.stats.reviews[TOKEN, "hit"] += 1
            return user

        async def ask() -> UserInfo | None:
            found = await self._reviews.review_token(token)
            if found is None:
                self._nobody.put(key, True)  # noqa: FBT003  a set
            else:
                self._users.put(key, found)
                self._proven.put(key, True)  # noqa: FBT003  likewise
            return found

        if self._proven.get(key):
            return await self._shared(TOKEN, key, ask, lambda: True)
        return await self._shared(
            TOKEN, key, ask, lambda: self._by_address.take(client) and self._tokens.take(), self._asking
        )

    async def may(self, user: UserInfo, verb: str, path: str) -> bool:
        """Whether the user may do that. Raises TooManyReviewsError or NoReviewError."""
        key = user, verb, path
        allowed = self._allowed.get(key)
        if allowed or self._denied.get(key):
            self.stats.reviews[ACCESS, "hit"] += 1
            return bool(allowed)

        async def ask() -> bool:
            found = await self._reviews.review_access(user, verb, path)
            (self._allowed if found else self._denied).put(key, True)  # noqa: FBT003  likewise
            return found

        return await self._shared(ACCESS, key, ask, lambda: self._by_user.take(user.name) and self._accesses.take())

    async def _shared(
        self,
        kind: str,
        key: Hashable,
        ask: Callable[[], Awaitable[T]],
        within: Callable[[], bool],
        turn: AbstractAsyncContextManager[object] | None = None,
    ) -> T:
        """One question for all who have it at the same time, whoever of them gives up."""
        task = self._under_way.get((kind, key))
        if task is None:
            if not within():
                self.stats.reviews[kind, "refused"] += 1
                raise TooManyReviewsError
            task = asyncio.create_task(self._ask(kind, ask, turn or nullcontext()), name=f"{kind} review")
            self._under_way[kind, key] = task
            task.add_done_callback(lambda done: self._asked(done, (kind, key)))
        else:
            self.stats.reviews[kind, "shared"] += 1
        return cast("T", await asyncio.shield(task))

    def _asked(self, task: asyncio.Task[object], key: Hashable) -> None:
        del self._under_way[key]
        # If all have given up who wanted to know, nobody has looked at the error.
        if not task.cancelled():
            task.exception()

    async def _ask(
        self, kind: str, ask: Callable[[], Awaitable[object]], turn: AbstractAsyncContextManager[object]
    ) -> object:
        self.stats.reviews[kind, "asked"] += 1
        began = self._clock()
        try:
            async with asyncio.timeout(self._seconds), turn:
                return await ask()
        except (ApiError, TimeoutError) as error:
            self.stats.reviews[kind, "failed"] += 1
            raise NoReviewError(str(error) or f"no answer within {self._seconds:g} s") from None
        finally:
            self.stats.seconds[kind] += self._clock() - began
