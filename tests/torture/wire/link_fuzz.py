"""What a line makes of its peer: fuzzers of frames and greetings, cuts, threads under ThreadSanitizer, and mutants.

`python -m tests.torture.wire.link_fuzz [SECONDS]`; a part of `make torture-wire`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from rtmw.net.security.certificates import NODE, der
from tests.net.security.site import Site
from tests.torture.wire.link_corpus import write

HERE = Path(__file__).parent
ROUNDS = 20_000
"""Of random cuts, and of changed inputs."""


def keys(folder: Path) -> str:
    """KEYS of link.mk: key and certificate, and the authority."""
    site = Site(folder)
    pem, authority = site.keys("rtmw://plant/hub") / NODE, folder / "authority.der"
    authority.write_bytes(der(site.authority))
    return f"{pem} {authority}"


def keys_to_greet(folder: Path) -> str:
    """Those, and a key that another authority of that name has signed."""
    stranger = Site(folder / "stranger").keys("rtmw://plant/hub") / NODE
    return f"{keys(folder)} {stranger}"


def make(*arguments: str) -> int:
    return subprocess.run(["make", "-s", "-C", str(HERE), "-f", "link.mk", *arguments], check=False).returncode


def main(seconds: str = "60") -> int:
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus")
        write(corpus)
        greeting = f"KEYS={keys_to_greet(Path(folder, 'greeting'))}"
        steps = [
            ("build",),
            ("fuzz", f"SECONDS={seconds}"),
            ("inputs", f"ROUNDS={ROUNDS}", f"CORPUS={corpus}"),
            ("libfuzzer", f"SECONDS={seconds}", f"CORPUS={corpus}"),
            ("cuts", f"ROUNDS={ROUNDS}"),
            ("threads", f"SECONDS={seconds}"),
            ("threads", f"SECONDS={seconds}", f"KEYS={keys(Path(folder, 'site'))}"),
            ("greet", f"ROUNDS={ROUNDS}", greeting),
            ("mutants", greeting),
        ]
        return max([make(*step) for step in steps])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
