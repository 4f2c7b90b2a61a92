"""A wall clock that a test sets, for programs that are started with a library that moves it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

SHIFTED = """
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long readings;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int code = (int)syscall(SYS_clock_gettime, clock, now);
    char text[32] = {0};
    int file = clock == CLOCK_REALTIME ? open(getenv("CLOCK_IS_SET_BY"), O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        if (read(file, text, sizeof text - 1) > 0)
            now->tv_sec += atol(text) * (strchr(text, '*') ? __sync_add_and_fetch(&readings, 1) : 1);
        close(file);
    }
    return code;
}
"""


@dataclass(frozen=True)
class WallClock:
    """`environment`: what a program is started with."""

    environment: Mapping[str, str]
    _by: Path

    def set_by(self, seconds: int, *, at_each_reading: bool = False) -> None:
        """From now on those programs read the wall clock so many seconds ahead; `at_each_reading`: so many more at
        each, as if it were set between any two of them."""
        written = self._by.with_suffix(".new")
        written.write_text(f"{seconds}*" if at_each_reading else str(seconds))
        written.replace(self._by)


def wall_clock(folder: Path) -> WallClock:
    """One that is right, until it is set; the test is skipped where none can be made."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    if os.environ.get("LD_PRELOAD"):
        pytest.skip("something else is preloaded")
    source, library, by = (folder / name for name in ("shifted.c", "shifted.so", "clock_is_set_by"))
    source.write_text(SHIFTED)
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    return WallClock({"LD_PRELOAD": str(library), "CLOCK_IS_SET_BY": str(by)}, by)
