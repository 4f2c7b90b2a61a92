"""Nodes in network namespaces at one bad cable: frames are late, overtake each other, are lost, or go one way only."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.net.cable import Cable, Faults, obstacle
from tests.replica.nodes import Nodes
from tests.replica.switching import Cuttable, run
from tests.whole import IS_WHOLE

pytestmark = [
    pytest.mark.skipif(obstacle() is not None, reason=str(obstacle())),
    pytest.mark.timeout(400),
]

FAULTS = Faults(delay_s=(0.0, 0.01), lost=0.01)
KINDS = ["cut", "deaf", "kill", "stop", "end", "move"] * 5 if IS_WHOLE else ["cut", "deaf", "kill"]


class Cabled(Cuttable):
    """Each node in a namespace. Programs come by a Unix socket, which no cable carries."""

    def __init__(self, folder: Path, cable: Cable) -> None:
        Nodes.__init__(self, folder)
        self._cable, self._ends = cable, {name: end for end, name in enumerate(self.names)}
        for name in self.names:
            text = self.file(name).read_text().replace("connect =", "insecure = true\nconnect =")
            for other, port in self.ports.items():
                here = f"{Cable.address(self._ends[other])}:{port}"
                listens = f'"{here}", "{self.place(other)}"' if other == name else f'"{here}"'
                text = text.replace(f'"127.0.0.1:{port}"', listens)
            self.file(name).write_text(text)
        self.processes = dict[str, subprocess.Popen[bytes]]()
        for name in self.names:
            self.start(name)

    def place(self, name: str) -> str:
        return f"unix:{self.folder / name}.sock"

    def before(self, name: str) -> list[str]:
        return [*self._cable.place(self._ends[name]).enter]

    def cut(self, ways: set[tuple[str, str]]) -> None:
        self._cable.cut = {(self._ends[a], self._ends[b]) for a, b in ways}


# Proves G371.
def test_on_a_cable_that_loses_delays_and_goes_one_way_nothing_is_lost_doubled_or_reordered(tmp_path: Path) -> None:
    with closing(Cable(FAULTS, ends=3)) as cable, Cabled(tmp_path, cable) as nodes:
        programs, done = run(nodes, 1, [*KINDS])
    assert programs.anomalies() == []
    assert done.total() == len(KINDS)
    assert programs.answered > 0
