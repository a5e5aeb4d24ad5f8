"""Retries writes that are safe to repeat."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from schedcache.kube.settings import WriteSettings
from schedcache.ports import ApiError


async def send_again(
    send: Callable[[], Awaitable[object]],
    settings: WriteSettings = WriteSettings(),
    *,
    obsolete: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    rng: random.Random | None = None,
) -> int:
    """Send a write until it succeeds, as often as the settings say at most.

    Args:
        send: sends it once.
        settings: how often, and the pauses between tries.
        obsolete: called before each further try: whether the write is no longer needed.
        sleep: waits that many seconds.
        rng: jitter of the pauses.

    Returns:
        How often it was sent again.

    Raises:
        ApiError: of the last try, or of the first that could not succeed later.
    """
    for again, pause in enumerate(settings.retry_backoff.pauses(rng), start=1):
        try:
            await send()
        except ApiError as error:
            if not error.may_pass or again >= settings.retry_tries or obsolete():
                raise
        else:
            return again - 1
        await sleep(pause)
    raise AssertionError("unreachable: pauses never end")
