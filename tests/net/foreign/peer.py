"""DDS programs of others, for tests: started once, told by lines what to do, and heard by lines.

to it                                    from it
  reader TOPIC TYPE [policy=value ...]     TOPIC matched COUNT
  writer TOPIC TYPE [policy=value ...]     TOPIC sample VALUE
  write TOPIC VALUE                        TOPIC wrote, TOPIC failed
  dispose TOPIC VALUE, unregister TOPIC VALUE
  close TOPIC
  take TOPIC
                                           TOPIC incompatible, TOPIC deadline, TOPIC refused

Policies: best_effort=1, depth=N (else KEEP_ALL), deadline=, interval=, lifespan=, lease=, latency= in seconds,
priority=N, partition=NAME, exclusive=1, coherent=1, ordered=1, xcdr=1 or 2, waits=1 (the reader takes when it is
told), and durable=, liveliness=, order=, scope= DDS' number of the kind.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.net.foreign.text import text
from tests.net.hosts import PATIENCE


class Peer:
    """A program that runs; `vendor` is whose DDS it is."""

    def __init__(self, vendor: str, command: list[str], folder: Path, errors: Path) -> None:
        self.vendor, self._errors = vendor, errors
        with errors.open("wb") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, cwd=folder, text=True
            )
        self._heard: defaultdict[str, list[str]] = defaultdict(list)
        self._changed = threading.Condition()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()
        self.next("program", "ready")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            topic, _, rest = line.rstrip("\n").partition(" ")
            with self._changed:
                self._heard[topic].append(rest)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _tell(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()

    def value(self, message: Any) -> str:
        """A message as this program writes it."""
        return text(message) if self.vendor == "fastdds" else bytes(message.serialize()).hex()

    def open(self, what: str, topic: str, kind: type[Any], alias: str = "", **policies: float | str) -> None:
        """`what`: reader or writer. `alias`: what Fast DDS is to call the type, though it is another's name."""
        name = str(kind.__idl_typename__).replace(".", "::")
        self._tell(
            what, topic, f"{name}/{alias}" if alias else name, *(f"{key}={value}" for key, value in policies.items())
        )

    def write(self, topic: str, message: Any) -> None:
        self._tell("write", topic, self.value(message))

    def let_go(self, how: str, topic: str, message: Any) -> None:
        """`how`: dispose or unregister. Of the message the key counts."""
        self._tell(how, topic, self.value(message))
        self.next(topic, "wrote")

    def close(self, topic: str) -> None:
        """Its writer or reader of the topic goes."""
        self._tell("close", topic)

    def take(self, topic: str) -> None:
        self._tell("take", topic)

    def next(self, topic: str, what: str, seconds: float = PATIENCE) -> str:
        """What it says next of this kind on a topic; what it has said of another kind is left for later."""
        until = time.monotonic() + seconds
        with self._changed:
            while True:
                for at, said in enumerate(self._heard[topic]):
                    if said.split(" ", 1)[0] == what:
                        del self._heard[topic][at]
                        return said.partition(" ")[2]
                assert self._process.poll() is None, f"{self.vendor} ended: {self._errors.read_text()}"
                assert time.monotonic() < until, f"no {what} on {topic}; heard: {self._heard[topic]}"
                self._changed.wait(0.5)

    def said(self, topic: str, what: str) -> int:
        """How often it has said this, and was not asked for it yet."""
        with self._changed:
            return sum(said.split(" ", 1)[0] == what for said in self._heard[topic])

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(PATIENCE)
        self._listener.join(PATIENCE)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        sys.stderr.write(f"\n--- {self.vendor}:\n{self._errors.read_text()}")
