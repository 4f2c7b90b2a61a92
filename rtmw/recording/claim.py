"""A folder that one program at a time writes to: else two would take numbers of files from each other."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from rtmw.errors import RtmwError
from rtmw.locks import FileLock

__all__ = ["Claim"]


class Claim(FileLock):
    """Makes the folder if need be, and holds it until it is closed, or its process ends.

    Raises `held` where another program holds it. Where the file system knows no locks, nobody is refused.
    """

    def __init__(self, folder: Path, held: RtmwError) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        with suppress(OSError):
            if not self.take():
                self.close()
                raise held
