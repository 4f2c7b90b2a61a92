"""`rtmw.Log`: one object for all threads and tasks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import rtmw
from bench.log_peers import Append, AppendAsync, Store


@contextmanager
def opened(folder: Path) -> Generator[Store]:
    with rtmw.Log(folder / "log") as log:

        @contextmanager
        def appender() -> Generator[Append]:
            yield log.append

        @asynccontextmanager
        async def appender_async() -> AsyncGenerator[AppendAsync]:
            yield log.append_async

        yield Store(appender, appender_async)
