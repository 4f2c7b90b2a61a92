"""`make torture-weak`: ThreadSanitizer on the stress, litmus patterns, and both on aarch64 if it can be had."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NATIVE = Path(__file__).parents[1] / "native"

if __name__ == "__main__":
    sys.exit(subprocess.run(["make", "-C", str(NATIVE), "tsan", "weak"], check=False).returncode)
