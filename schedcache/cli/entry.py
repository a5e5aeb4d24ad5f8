"""Where the process begins: from here on it obeys a signal to stop, and only then it imports the rest.

The imports take most of a second. As PID 1 of a container a process without handlers would not be ended by a SIGTERM that
comes meanwhile (the kernel drops it), and its pod would stay until SIGKILL. So this module imports next to nothing.
"""

from collections.abc import Sequence

from schedcache.cli.signals import obeyed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    with obeyed():
        from schedcache.cli.commands import run_command

        return run_command(arguments)
