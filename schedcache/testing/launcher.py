"""Runs one program, and ends it as soon as the process that asked for it is gone.

Run as a script, with the standard library only: ``python -I -S launcher.py PARENT_PID COMMAND...``. Standard input is
a pipe whose other end the parent holds and never writes to: however the parent ends, SIGKILL included, the pipe closes.
A forked child of the parent may hold that end open as well, so the parent's pid is looked at too.
Should the launcher itself be killed, Linux kills the program (PR_SET_PDEATHSIG). That signal alone would not do: it
follows the *thread* that forked, and a test harness starts its servers from worker threads.

Standard output: one line with the program's pid; what the program itself writes goes to standard error.
Exit status: the program's own; 128 + n when signal n ended it.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1
LOOK_SECONDS = 0.2
NO_SUCH_PROGRAM = 127


def die_with_launcher(launcher_pid: int) -> None:
    """Run in the forked child, before the program is loaded."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != launcher_pid:
        os._exit(1)


def parent_is_gone(parent_pid: int) -> bool:
    """Wait a moment for the lifeline to close."""
    closed, _, _ = select.select([0], [], [], LOOK_SECONDS)
    return bool(closed) or os.getppid() != parent_pid


def main(arguments: list[str]) -> int:
    """Run ``arguments[1:]`` for the process ``arguments[0]``."""
    parent_pid, command = int(arguments[0]), arguments[1:]
    launcher_pid = os.getpid()
    try:
        # close_fds=False: the lock on the run's directory is inherited, and is held as long as anything runs in it.
        # Nothing else is inherited: Python opens every descriptor close-on-exec.
        program = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            close_fds=False,
            preexec_fn=lambda: die_with_launcher(launcher_pid),  # noqa: PLW1509 - one thread only, so Python code between fork and exec is safe
        )
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]}: {error.strerror}\n")
        return NO_SUCH_PROGRAM
    sys.stdout.write(f"{program.pid}\n")
    sys.stdout.close()
    while program.poll() is None:
        if parent_is_gone(parent_pid):
            program.kill()
            program.wait()
            return 128 + signal.SIGKILL
    return program.returncode if program.returncode >= 0 else 128 - program.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
