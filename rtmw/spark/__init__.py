"""Recordings in Spark, and Spark's rows on the bus again.

    spark = rtmw.spark.session()
    flow = rtmw.spark.read("monday/", topic="pump/speed")

Needs `pip install 'rtmw[spark]'` and Java 17 or newer; neither is looked for before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rtmw.spark.driver import register, require_pyspark, session

if TYPE_CHECKING:
    from rtmw.spark import analyse
    from rtmw.spark.reading import read
    from rtmw.spark.sink import Replayed, replay
    from rtmw.spark.source import Scanned, scanned

__all__ = ["Replayed", "Scanned", "analyse", "read", "register", "replay", "scanned", "session"]

_HOMES = {"Replayed": "sink", "Scanned": "source", "read": "reading", "replay": "sink", "scanned": "source"}
"""Modules that need PySpark, by what they give."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rtmw.spark' has no attribute {name!r}")
    require_pyspark()
    if name == "analyse":
        return import_module("rtmw.spark.analyse")
    return getattr(import_module(f"rtmw.spark.{_HOMES[name]}"), name)
