"""Ready analyses of recordings: each takes rows as `rtmw.spark.read` has them, and gives a plain DataFrame.

    messages = rtmw.spark.read("monday/")
    analyse.rates(messages).show()
    analyse.lines(analyse.latency_over_time(messages, every=10), "time", "p99_us").savefig("latency.png")

Results are the same on one machine and on a cluster, to the last digit. Times are UTC; `every`, `longer` and the like
are seconds.
"""

from __future__ import annotations

from rtmw.spark.analyse import airport, river
from rtmw.spark.analyse.messages import (
    as_of,
    deadline_misses,
    latency,
    latency_over_time,
    lifetime_misses,
    rates,
    rates_over_time,
    resample,
    silences,
)
from rtmw.spark.analyse.plots import bars, lines

__all__ = [
    "airport",
    "as_of",
    "bars",
    "deadline_misses",
    "latency",
    "latency_over_time",
    "lifetime_misses",
    "lines",
    "rates",
    "rates_over_time",
    "resample",
    "river",
    "silences",
]
