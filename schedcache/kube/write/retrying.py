"""Trying a write again that is safe to repeat."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from schedcache.ports import ApiError, Backoff

TRIES = 5
BACKOFF = Backoff(first=0.05, factor=5.0, limit=7.5, jitter=0.5)


async def send_again(
    send: Callable[[], Awaitable[object]],
    *,
    obsolete: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    rng: random.Random | None = None,
) -> int:
    """Send a write until it succeeds, five times at most, within about ten seconds of pauses.

    Args:
        send: sends it once.
        obsolete: asked before each further try: whether it is not worth it any more.
        sleep: waits that many seconds.
        rng: jitter of the pauses.

    Returns:
        How often it was sent again.

    Raises:
        ApiError: of the last try, or of the first that no repetition would help.
    """
    for again, pause in zip(range(TRIES), BACKOFF.pauses(rng), strict=False):
        try:
            await send()
        except ApiError as error:
            if not error.may_pass or again == TRIES - 1 or obsolete():
                raise
        else:
            return again
        await sleep(pause)
    raise AssertionError("unreachable: the last try returns or raises")
