"""A library that is preloaded into a process, and ends it by SIGKILL before one of its system calls that change files
or folders, or lets that call fail; those of Python and of C alike."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CALLS = """
#include <asm/fcntl.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>

int getpid(void);
int kill(pid_t process, int signal);

enum { SIGKILL = 9 };

static long left, error;

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("RTMW_KILL_AT_CALL");
    left = at ? atol(at) : 0;
    at = getenv("RTMW_CALL_ERROR");
    error = at ? atol(at) : 0;
}

static int fails(void)
{
    if (__sync_sub_and_fetch(&left, 1) != 0) return 0;
    if (!error) kill(getpid(), SIGKILL);
    errno = (int)error;
    return 1;
}

static int is_file(int descriptor)
{
    struct stat about;
    return fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode);
}

#define CALL(type, name, changes, parameters, ...)       \\
    type name parameters                                 \\
    {                                                    \\
        static type (*next) parameters;                  \\
        if (!next) next = dlsym(RTLD_NEXT, #name);       \\
        if ((changes) && fails()) return -1;             \\
        return next(__VA_ARGS__);                        \\
    }
#define BOTH(type, name, changes, parameters, ...)       \\
    CALL(type, name, changes, parameters, __VA_ARGS__)   \\
    CALL(type, name##64, changes, parameters, __VA_ARGS__)

BOTH(int, open, flags & O_CREAT, (const char *path, int flags, mode_t mode), path, flags, mode)
BOTH(int, openat, flags & O_CREAT, (int at, const char *path, int flags, mode_t mode), at, path, flags, mode)
BOTH(int, ftruncate, 1, (int file, off_t size), file, size)
BOTH(int, fallocate, 1, (int file, int mode, off_t at, off_t size), file, mode, at, size)
BOTH(ssize_t, pwrite, 1, (int file, const void *from, size_t size, off_t at), file, from, size, at)
BOTH(ssize_t, pwritev, 1, (int file, const struct iovec *parts, int count, off_t at), file, parts, count, at)
CALL(ssize_t, pwritev2, 1, (int f, const struct iovec *p, int n, off_t at, int flags), f, p, n, at, flags)
CALL(ssize_t, pwritev64v2, 1, (int f, const struct iovec *p, int n, off_t at, int flags), f, p, n, at, flags)
CALL(ssize_t, write, is_file(file), (int file, const void *from, size_t size), file, from, size)
CALL(int, fsync, 1, (int file), file)
CALL(int, fdatasync, 1, (int file), file)
CALL(int, mkdir, 1, (const char *path, mode_t mode), path, mode)
CALL(int, mkdirat, 1, (int at, const char *path, mode_t mode), at, path, mode)
CALL(int, rename, 1, (const char *from, const char *to), from, to)
CALL(int, renameat, 1, (int at, const char *from, int there, const char *to), at, from, there, to)
CALL(int, renameat2, 1, (int at, const char *from, int there, const char *to, unsigned int how),
     at, from, there, to, how)
CALL(int, link, 1, (const char *from, const char *to), from, to)
CALL(int, linkat, 1, (int at, const char *from, int there, const char *to, int how), at, from, there, to, how)
CALL(int, unlink, 1, (const char *path), path)
CALL(int, unlinkat, 1, (int at, const char *path, int how), at, path, how)
CALL(int, rmdir, 1, (const char *path), path)
CALL(long, syscall, number == SYS_renameat2 || number == SYS_openat2,
     (long number, long a, long b, long c, long d, long e, long f), number, a, b, c, d, e, f)
"""


def killed_at_call(folder: Path, number: int, error: int = 0) -> list[str]:
    """What to put before a command; the test is skipped where that cannot be. `error`: the call has this one instead,
    and the process lives."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    if os.environ.get("LD_PRELOAD"):
        pytest.skip("something else is preloaded")
    source, library = folder / "calls.c", folder / "calls.so"
    source.write_text(CALLS)
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    return ["env", f"LD_PRELOAD={library}", f"RTMW_KILL_AT_CALL={number}", f"RTMW_CALL_ERROR={error}"]
