"""What `/livez` and `/readyz` answer, and why."""

from collections.abc import Callable, Iterable

from aiohttp import web

Check = Callable[[], str]
"""Returns what is wrong, "" if nothing is."""


class Health:
    """Named checks. The process is healthy only if every check passes; there is no default answer.

    `livez` asks whether a restart would help, `readyz` whether this process does its work at this moment. If the API server
    does not answer, a restart does not help, but the process is not ready.
    """

    def __init__(
        self,
        livez: Iterable[tuple[str, Check]],
        readyz: Iterable[tuple[str, Check]],
        standing: Callable[[], str] = str,
    ) -> None:
        """`standing`: what `/readyz` adds to its "ok", such as being a standby; "" for nothing."""
        self._standing = standing
        self._livez = dict(livez)
        self._readyz = {**self._livez, **dict(readyz)}

    def live(self) -> dict[str, str]:
        """Each check of `/livez` with the problem that it found, "" for none."""
        return {name: check() for name, check in self._livez.items()}

    def ready(self) -> dict[str, str]:
        """Each check of `/readyz`, those of `/livez` included."""
        return {name: check() for name, check in self._readyz.items()}

    def routes(self) -> list[web.RouteDef]:
        """`/livez`, `/readyz`, and kube-scheduler's older `/healthz`, which is `/livez` here.

        200 or 500, and with `?verbose` or where something is wrong each check on a line.
        """

        async def livez(request: web.Request) -> web.Response:
            return _answer("livez", self.live(), request, "")

        async def readyz(request: web.Request) -> web.Response:
            return _answer("readyz", self.ready(), request, self._standing())

        return [web.get("/livez", livez), web.get("/readyz", readyz), web.get("/healthz", livez)]


def _answer(name: str, found: dict[str, str], request: web.Request, standing: str) -> web.Response:
    """As kube-scheduler (apiserver's healthz package), but with the reason on the line of a failed check."""
    healthy = not any(found.values())
    if healthy and "verbose" not in request.query:
        return web.Response(text=f"ok: {standing}" if standing else "ok")
    lines = [f"[-]{check} failed: {problem}" if problem else f"[+]{check} ok" for check, problem in found.items()]
    lines.append(f"{name} check {'passed' if healthy else 'failed'}{f': {standing}' if standing else ''}")
    return web.Response(text="\n".join(lines) + "\n", status=200 if healthy else 500)
