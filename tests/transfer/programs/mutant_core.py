"""A core, with a rule taken out (its name; empty: none), that kills itself behind so many batches of records.

`python -m tests.transfer.programs.mutant_core … NAME BATCHES durable|lost|never`. durable: when they are on the disk,
and it has told nobody; lost: when they would go to the disk, and it has told whatever it tells before; never:
it does not.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from tests.transfer.mutants import Finder
    from tests.transfer.programs.mutants import MUTANTS

    *_, name, batches, when = sys.argv
    del sys.argv[-3:]
    if name:
        sys.meta_path.insert(0, Finder(MUTANTS[name], "rtmw.transfer"))

    from rtmw.transfer.core import __main__ as core
    from tests.transfer.dying import die_when_durable, die_when_lost

    if when == "durable":
        die_when_durable(int(batches))
    elif when == "lost":
        die_when_lost(int(batches), lambda _: True, 0.0)
    sys.exit(core.main())
