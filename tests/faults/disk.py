"""A small disk of its own, which can be filled without harm to anybody else's."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def disk(path: Path, size_mib: int) -> Iterator[Path]:
    """A file system in memory of that size, mounted until the end of the block. Needs root."""
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def fill(path: Path) -> Path:
    """A file that takes all the room that is left."""
    ballast = path / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        block = os.urandom(2**16)
        while True:
            file.write(block)
    return ballast
