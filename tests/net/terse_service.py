"""A service that ends at once and says why, behind a line that is too long and an empty one."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.exit(f"the first error: {'x' * (1 << 17)}\n\nthe error that came of it")
