"""A library that is preloaded into a node: while a file is there, its disk has no room, or is slow to sync."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.replica.nodes import SEGMENT

CALLS = """
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static int is(const char *what)
{
    const char *path = getenv(what);
    return path && access(path, F_OK) == 0;
}

#define NEXT(name) __typeof__(&name) next = dlsym(RTLD_NEXT, #name)
#define SYNC(name)                                            \\
    int name(int file)                                        \\
    {                                                         \\
        NEXT(name);                                           \\
        struct timespec some = {1, 500000000};                \\
        if (is("RTMW_SLOW_DISK")) nanosleep(&some, NULL);     \\
        return next(file);                                    \\
    }
#define ALLOCATE(name)                                        \\
    int name(int file, int mode, off_t at, off_t size)        \\
    {                                                         \\
        NEXT(name);                                           \\
        if (!is("RTMW_FULL_DISK")) return next(file, mode, at, size); \\
        errno = ENOSPC;                                       \\
        return -1;                                            \\
    }
#define ROOM(name, type)                                      \\
    int name(const char *path, struct type *found)            \\
    {                                                         \\
        NEXT(name);                                           \\
        int code = next(path, found);                         \\
        if (!code && is("RTMW_FULL_DISK")) found->f_bavail = 0; \\
        return code;                                          \\
    }

int fallocate(int, int, off_t, off_t);
int fallocate64(int, int, off_t, off_t);
SYNC(fsync)
SYNC(fdatasync)
ALLOCATE(fallocate)
ALLOCATE(fallocate64)
ROOM(statvfs, statvfs)
ROOM(statvfs64, statvfs64)
"""


class BadDisk:
    """Of one node. `before`: what stands before its command. The test is skipped where that cannot be."""

    def __init__(self, folder: Path) -> None:
        if not shutil.which("gcc"):
            pytest.skip("needs gcc")
        if os.environ.get("LD_PRELOAD"):
            pytest.skip("something else is preloaded")
        source, library = folder / "bad_disk.c", folder / "bad_disk.so"
        source.write_text(CALLS)
        subprocess.run(["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
        self._full, self._slow = folder / "is_full", folder / "is_slow"
        self.before = ["env", f"LD_PRELOAD={library}", f"RTMW_FULL_DISK={self._full}", f"RTMW_SLOW_DISK={self._slow}"]

    def fill(self, _: int) -> None:
        """From now on, and for the node that runs."""
        self._full.touch()

    def make_room(self) -> None:
        self._full.unlink()

    def slow_down(self) -> None:
        """Each sync takes a second and a half longer."""
        self._slow.touch()

    def speed_up(self) -> None:
        self._slow.unlink()


SMALL = [f"{SEGMENT}={1 << 20}"]
"""Behind `env`: segments of a MiB."""
