"""A wall clock that is not this machine's: a small library in front of libc's, which adds what a file says."""

import contextlib
import mmap
import struct
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

FILE = "SCHEDCACHE_CLOCK"
SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long long *seconds;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
  real = dlsym(RTLD_NEXT, "clock_gettime");
  int file = open(getenv("SCHEDCACHE_CLOCK"), O_RDONLY | O_CLOEXEC);
  void *mapped = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) seconds = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(clock, now);
  if (!failed && seconds && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *seconds;
  return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec precise;
  int failed = clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return failed;
}

time_t time(time_t *into) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (into) *into = precise.tv_sec;
  return precise.tv_sec;
}
"""


class Clock:
    """How far the wall clock of processes with `environment` is ahead."""

    def __init__(self, library: Path, file: Path, mapped: mmap.mmap) -> None:
        self.environment: Mapping[str, str] = {"LD_PRELOAD": str(library), FILE: str(file)}
        self._mapped = mapped

    def set(self, seconds: int) -> None:
        """At once, for all of them."""
        self._mapped[:8] = struct.pack("q", seconds)


def shift_library(folder: Path) -> Path:
    """Compile it; needs a C compiler, which Go's own build of etcd does not."""
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(SOURCE)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


@contextlib.contextmanager
def shifted(library: Path, seconds: int) -> Iterator[Clock]:
    """A clock that is so far ahead."""
    file = library.with_suffix(".seconds")
    file.write_bytes(bytes(8))
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 8) as mapped:
        clock = Clock(library, file, mapped)
        clock.set(seconds)
        yield clock
