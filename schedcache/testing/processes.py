"""Child processes that never outlive the process that started them, and the directories they run in."""

import contextlib
import fcntl
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

LAUNCHER = Path(__file__).with_name("launcher.py")


class SupervisedProcess:
    """A program in a session of its own, with its output in a file.

    It ends when :meth:`kill` is called, and at the latest when this process ends, whatever ends it (see launcher.py).
    Signals from the terminal do not reach it.

    Args:
        command: the program and its arguments.
        log: file that takes standard output and standard error; appended to.
        environment: the program's environment; ``None``: this process's.
        directory: its working directory; ``None``: this process's.
        inherited: file descriptors the program keeps open for as long as it runs.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        inherited: Sequence[int] = (),
    ) -> None:
        self.command = tuple(command)
        self.log = log
        with log.open("ab") as output:
            self._launcher = subprocess.Popen(
                # -I -S: nothing of the user's Python set-up, and a start in 15 ms.
                [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=environment,
                cwd=directory,
                pass_fds=inherited,
                start_new_session=True,
            )

    @functools.cached_property
    def pid(self) -> int:
        """Process id of the program; 0 if it could not be run, which shows in :meth:`poll` and the log."""
        pipe = self._launcher.stdout
        return 0 if pipe is None else int(pipe.readline() or 0)

    def poll(self) -> int | None:
        """Exit status, ``None`` while it runs; 128 + n when signal n ended it."""
        return self._launcher.poll()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; ``subprocess.TimeoutExpired`` after ``timeout`` seconds."""
        return self._launcher.wait(timeout)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program, such as SIGTERM or SIGSTOP; nothing happens once it has ended."""
        if self.pid and self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once and wait until it is gone; safe to call again."""
        # Leaving the block closes the lifeline and waits for the launcher, which has waited for the program.
        with self._launcher:
            self.signal(signal.SIGKILL)

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of its output."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


@contextlib.contextmanager
def exclusive_lock(path: Path, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Lock ``path`` against other processes and threads; the kernel frees the lock if this process dies.

    Args:
        path: file to lock; created if necessary.
        on_wait: called once if another holds the lock.
    """
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait is not None:
                on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class RunDirectory:
    """A private temporary directory that is removed even if its owner is killed.

    Each has a file that is locked by all processes that work in the directory, including children. Making a new one first
    removes those that are no longer locked.

    Raises:
        PermissionError: the common parent directory belongs to another user.
    """

    def __init__(self) -> None:
        parent = runs_directory()
        with exclusive_lock(parent / "lock"):
            remove_dead_runs(parent)
            self.path = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
            self._lock = (self.path / "lock").open("wb")
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def fileno(self) -> int:
        """Descriptor to hand to children, so that the directory lives as long as they do."""
        return self._lock.fileno()

    def remove(self) -> None:
        """Delete the directory; safe to call again."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def runs_directory() -> Path:
    """The folder of all runs of this user: ``$TMPDIR/schedcache-UID``."""
    path = Path(tempfile.gettempdir()) / f"schedcache-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    # /tmp is everybody's: a folder of this name that another user made first could read our keys.
    if path.stat().st_uid != os.getuid() or path.is_symlink():
        raise PermissionError(f"{path} belongs to another user; set TMPDIR to a folder of your own")
    return path


def remove_dead_runs(parent: Path) -> None:
    """Remove the runs whose processes are all gone. The caller holds ``parent``'s lock."""
    for run in parent.glob("run-*"):
        with contextlib.suppress(FileNotFoundError), (run / "lock").open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(run, ignore_errors=True)
