"""How far the tasks of a session are, for whoever waits for them."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark import SparkContext

    from rtmw.recording.tools.copying import Progress

_EVERY_S: Final = 0.5


@contextmanager
def watched(context: SparkContext, tasks: int, progress: Progress) -> Generator[None]:
    """Tells now and then, from a thread of its own, how many of about so many tasks are done."""
    over = threading.Event()
    thread = threading.Thread(target=_watch, args=(context.statusTracker(), tasks, progress, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch(tracker: Any, tasks: int, progress: Progress, over: threading.Event) -> None:
    stages = set[int]()
    while not over.wait(_EVERY_S):
        try:
            for job in filter(None, map(tracker.getJobInfo, tracker.getActiveJobsIds())):
                stages.update(job.stageIds)
            done = sum(stage.numCompletedTasks for stage in filter(None, map(tracker.getStageInfo, stages)))
        except Exception:  # of py4j, of many kinds: the JVM has ended, and the thread that waits for tasks hears why
            return
        progress(min(done, tasks), tasks)
