"""`python -m rtmw`: the `rtmw` command."""

import sys

from rtmw.cli import main

if __name__ == "__main__":
    sys.exit(main())
