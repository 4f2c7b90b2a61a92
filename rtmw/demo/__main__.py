"""One process of the demonstration: `python -m rtmw.demo ROLE DOMAIN`. It runs until its standard input ends."""

from __future__ import annotations

import sys

from rtmw.demo.programs import ROLES

if __name__ == "__main__":
    ROLES[sys.argv[1]](int(sys.argv[2]))
