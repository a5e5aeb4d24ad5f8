"""Where the process begins: from here on it obeys a signal to stop, and only then it imports the rest.

The imports take most of a second. As PID 1 of a container a process without handlers would not be ended by a SIGTERM that
comes meanwhile (the kernel drops it), and its pod would stay until SIGKILL. So this module imports next to nothing.
"""

from collections.abc import Sequence

from schedcache.cli.signals import obeyed

FAULT = 70
"""The exit status of a program with a fault (EX_SOFTWARE of sysexits.h): 1, Python's own for it, is an answer here."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status. Whatever is raised is a fault of the program, told with its traceback."""
    with obeyed():
        try:
            from schedcache.cli.descriptors import occupy_standard_descriptors

            occupy_standard_descriptors()
            from schedcache.cli.commands import run_command

            return run_command(arguments)
        except Exception:  # noqa: BLE001  the outermost place: nobody is left who could know better
            return _fault()


def _fault() -> int:
    import traceback

    from schedcache.cli.output import tell

    tell(f"{traceback.format_exc()}schedcache: a fault in the program, exit status {FAULT}")
    return FAULT
