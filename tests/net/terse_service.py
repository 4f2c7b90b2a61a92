"""A service that ends at once and says why, with an empty line between, as a traceback of two errors has it."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.exit("the first error\n\nthe error that came of it")
