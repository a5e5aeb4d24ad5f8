"""The command line: which commands there are, and what their exit status means.

0: done, or stopped on request. 1: it failed, or the answer is no. 2: bad input; the message says what was expected. 70: a fault in the
program. 74: the answer could not be written. 128 + n: ended by signal n, with nothing under way or without waiting for it.
"""

import argparse
import difflib
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from schedcache import __version__
from schedcache.app.errors import UsageError
from schedcache.cli import check_config, demo, dump, run, simulate
from schedcache.cli.output import UnwrittenError, tell, writing

COMMANDS = (run, demo, simulate, dump, check_config)


class _Parser(argparse.ArgumentParser):
    """Whole flag names only, as kube-scheduler has it; a mistyped one is answered with the nearest that exists."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        flags = [flag for action in self._actions for flag in action.option_strings]
        unknown = re.findall(r"(?<=[ :])--?[\w-]+", message) if "unrecognized arguments" in message else []
        hints = [near[0] for flag in unknown if (near := difflib.get_close_matches(flag, flags, n=1))]
        hint = f" (did you mean {', '.join(hints)}?)" if hints else ""
        self.exit(2, f"{self.prog}: {message}{hint}\n  see '{self.prog} --help'\n")


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = _Parser(prog="schedcache", description="A secondary scheduler for Kubernetes.")
    parser.add_argument("--version", action="version", version=f"schedcache {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add_command(commands)
    version = commands.add_parser("version", help="print the version")
    version.set_defaults(execute=_print_version, parser=version)
    return parser


def _print_version(_options: argparse.Namespace) -> int:
    with writing():
        print(f"schedcache {__version__}")
    return 0


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    parser = make_parser()
    options, rest = parser.parse_known_args(arguments)
    if rest:
        options.parser.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        status = int(options.execute(options))
        with writing():
            print(end="", flush=True)
    except UsageError as error:
        tell(f"schedcache {options.command}: {error}")
        return 2
    except UnwrittenError as error:
        tell(f"schedcache {options.command}: {error}")
        return error.status
    return status
