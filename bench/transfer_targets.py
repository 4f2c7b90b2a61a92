"""What transfers mean to reach, beside the log on which they stand."""

from __future__ import annotations

from bench.questions.transfer_rate import APPENDS, LOGGED
from bench.target import Target, ours

PYTHON = (
    "Python: by the time of the processor, a letter costs the core 50 to 60 µs and the program 35 to 40 µs, an append "
    "7 µs; the disk is not what they wait for. By cProfile the core's time is flat: steps, records and frames are "
    "objects of Python, and no single one takes more than a tenth"
)

TRANSFER_TARGETS = (
    Target(
        "letters of 200 B with class LOG, accepted from 64 asyncio tasks: at least 0.7 × bare appends",
        ours("transfer_rate", LOGGED),
        0.7,
        over=(("transfer_rate", LOGGED, APPENDS),),
        at_least=True,
        limited_by=PYTHON,
    ),
)
