"""C programs of the tests, built by their Makefile into a folder of a test's own."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Makefile:
    """`folder`: where it lies, and where it runs."""

    folder: Path
    name: str = "Makefile"
    patience: float = 500.0

    def make(self, out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What `make` has said; what it builds lies in `out`. The test is skipped without the tools."""
        if not (shutil.which("gcc") and shutil.which("make")):
            pytest.skip("needs gcc and make")
        command = ["make", "-s", "-j2", "-C", str(self.folder), "-f", self.name, f"BUILD={out}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=self.patience, check=False)

    def build(self, out: Path, *arguments: str) -> Path:
        """Builds without an error, and gives `out`."""
        made = self.make(out, *arguments)
        assert made.returncode == 0, made.stdout + made.stderr
        return out
