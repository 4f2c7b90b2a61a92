"""The Python process in which tasks run, one after the other."""

from __future__ import annotations

import gc
from functools import cache

from pyspark import TaskContext


@cache
def freeze_imports() -> None:
    """Called when all is imported that a task needs, and once only.

    Behind each task Spark's workers collect garbage. What is there now stays: to look through it each time would take
    longer than reading a hundred thousand messages.
    """
    if TaskContext.get() is not None:
        gc.freeze()
