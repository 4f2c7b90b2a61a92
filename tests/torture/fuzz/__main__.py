"""Three minutes of the fuzzer, and then each of its mutants."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

if __name__ == "__main__":
    sys.exit(subprocess.run(["make", "-s", "-C", str(HERE), "fuzz", "mutants", "SECONDS=180"], check=False).returncode)
