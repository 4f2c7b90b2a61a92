"""The machine in a line: a figure without it says nothing."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def fact(path: str, name: str) -> str:
    """The value of `name : value` in a file of /proc."""
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


def described() -> str:
    processors = len(os.sched_getaffinity(0))
    memory = int(fact("/proc/meminfo", "MemTotal").split()[0]) / (1 << 20)
    virtual = ", virtual" if "hypervisor" in fact("/proc/cpuinfo", "flags").split() else ""
    system = f"Linux {platform.release()}, CPython {platform.python_version()}"
    load = os.getloadavg()[0]
    return (
        f"{processors} × {fact('/proc/cpuinfo', 'model name')}{virtual}, {memory:.0f} GiB, {system}, "
        f"load {load:.1f} at the start"
    )
