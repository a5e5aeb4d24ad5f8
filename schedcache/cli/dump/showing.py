"""What `schedcache dump` does: get a dump, save it, show it; or compare two."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from schedcache.app.errors import UsageError
from schedcache.cli.dump.differences import differences, differences_text
from schedcache.cli.dump.tables import NotInDumpError, dump_text
from schedcache.cli.output import tell, writing
from schedcache.dump import Dump, DumpError, load_dump


def show(options: argparse.Namespace) -> int:
    """0: shown; 1: there is no dump, or what was asked for is not in it. Raises UsageError."""
    if len(options.what) > 1:
        raise UsageError(f"expected one NAMESPACE/POD or NODE, got {' '.join(options.what)}")
    what = options.what[0] if options.what else ""
    text = _text(options, _parameters(what))
    if text is None:
        return 1
    if options.save is not None:
        _save(options.save, text)
    try:
        dump = _loaded(text, str(options.file or options.url or "the scheduler's answer"))
        answer = text.decode() if options.output == "json" else dump_text(dump, what, sys.stdout)
    except NotInDumpError as error:
        tell(f"schedcache dump: {error}")
        return 1
    with writing():
        print(answer, end="" if answer.endswith("\n") else "\n")
    return 0


def _parameters(what: str) -> Mapping[str, str]:
    """Of `/dump`, for a pod or a node: its own part, and what happened to it."""
    if not what:
        return {}
    namespace, slash, _ = what.partition("/")
    return {"namespace": namespace, "stories": what} if slash else {"nodes": what, "stories": what}


def _text(options: argparse.Namespace, parameters: Mapping[str, str]) -> bytes | None:
    if options.file is not None:
        if options.url is not None:
            raise UsageError("--file and --url: expected one of them")
        return _read(options.file)
    # Loaded only for this: it is the greater part of what a command loads.
    from schedcache.cli.dump.fetching import NotFetchedError, fetch
    from schedcache.cli.logs import logging_to_stderr

    # Standard output is the answer's; what goes wrong on the way is still told.
    with logging_to_stderr("auto", 0, quiet=True):
        try:
            return fetch(options, parameters)
        except NotFetchedError as error:
            tell(f"schedcache dump: {error}")
            return None


def diff(options: argparse.Namespace) -> int:
    """0: nothing differs but times; 1: something does. Raises UsageError."""
    if len(options.what) != 3:
        raise UsageError("diff: expected two files, the earlier dump first")
    first, second = (_loaded(_read(Path(name)), name) for name in options.what[1:])
    found = differences(first, second)
    text = json.dumps(found, indent=1) + "\n" if options.output == "json" else differences_text(found, sys.stdout)
    with writing():
        print(text, end="")
    return 1 if any(found.values()) else 0


def _loaded(text: bytes, source: str) -> Dump:
    try:
        return load_dump(text, source)
    except DumpError as error:
        raise UsageError(str(error)) from error


def _read(path: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _save(path: Path, text: bytes) -> None:
    try:
        path.write_bytes(text)
    except OSError as error:
        raise UsageError(f"--save: {path}: {error.strerror}") from error
