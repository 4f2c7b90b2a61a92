"""What a node makes of samples of others: a minute of the fuzzer under AddressSanitizer, limits, and mutants."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(seconds: str = "60") -> int:
    command = ["make", "-s", "-C", str(HERE), "-f", "engine.mk", "build", "libfuzzer", "limits", "mutants"]
    return subprocess.run([*command, f"SECONDS={seconds}"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
