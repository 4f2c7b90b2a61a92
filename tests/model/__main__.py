"""Every size of the models, and every precaution less; what each search came to."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.model.check import QUEUE, REPLICA, Found, search, what_is_missing
from tests.model.sizes import LARGE, REPLICA_LARGE, REPLICA_SMALL, REPLICA_WITHOUT, SMALL, WITHOUT

LONGEST = 900.0


def told(name: str, found: Found, began: float) -> None:
    came_to = f"violated: {found.violation}" if found.violation else "nothing"
    print(f"{name:<60}{found.states:>10} states{time.monotonic() - began:>7.1f} s   {came_to[:60]}", flush=True)


def main() -> int:
    reason = what_is_missing()
    if reason:
        print(f"the model is not searched: {reason}")
        return 0
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for model, sizes, without in (
            (QUEUE, {**SMALL, **LARGE}, WITHOUT),
            (REPLICA, {**REPLICA_SMALL, **REPLICA_LARGE}, REPLICA_WITHOUT),
        ):
            for name, defines in {**sizes, **{f"without {name}": defines for name, defines in without.items()}}.items():
                began = time.monotonic()
                found = search(Path(folder), defines, LONGEST, model)
                told(name, found, began)
                wrong += (found.violation is None) == name.startswith("without ")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
