"""`make torture-dds-rtps`: runs all cases, and writes bench/results/dds_rtps.md. Status 1 if one fails not by design.

python -m tests.torture.dds_rtps [NAME...]: these cases alone, or with this vendor alone (cyclonedds, fastdds); no page.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.conftest import free_number
from tests.net.foreign.build import HERE as FOREIGN
from tests.net.foreign.build import fast_program, python_modules
from tests.net.foreign.peer import Peer
from tests.net.hosts import Host
from tests.torture.dds_rtps.cases import Case, cases
from tests.torture.dds_rtps.ends import Place
from tests.torture.dds_rtps.page import Row, write_page
from tests.torture.dds_rtps.runs import PUBLISHES, SUBSCRIBES, known, run

SHAPES = Path(__file__).with_name("shapes.idl")
VENDORS = ("cyclonedds", "fastdds")


@contextmanager
def place(vendor: str, folder: Path) -> Iterator[Place]:
    """A host with a node, and programs of a vendor's DDS. `folder`: with what was built."""
    host, domains = Host(free_number(), free_number(), folder), (free_number(),)
    with ExitStack() as ends:
        ends.callback(host.end)
        host.start()
        peers: list[Peer] = []
        for number, domain in enumerate((host.dds_domain, host.dds_domain, *domains)):
            command = [sys.executable, str(FOREIGN / "plain.py")] if vendor == "cyclonedds" else [str(folder / "fast")]
            peer = Peer(vendor, [*command, str(domain)], folder, folder / f"{vendor}_{number}.log")
            ends.callback(peer.end)
            peers.append(peer)
        yield Place(host, (peers[0], peers[1]), peers[2], importlib.import_module("shapes").Shape)


def run_all(wanted: list[Case], vendors: list[str], folder: Path) -> Iterator[Row]:
    found: dict[str, dict[tuple[str, str], str]] = {case.name: {} for case in wanted}
    for vendor in vendors:
        with place(vendor, folder) as here:
            for case in wanted:
                for role in (PUBLISHES, SUBSCRIBES):
                    said = found[case.name][vendor, role] = run(case, here, role)
                    print(f"{case.name:<28}{vendor:<12}{role:<12}{said}", flush=True)
    for case in wanted:
        yield Row(case.name, case.asks, found[case.name])


def build(vendors: list[str], folder: Path) -> list[str]:
    """With which of them the cases can be run."""
    python_modules(folder, SHAPES)
    try:
        if "fastdds" in vendors:
            fast_program(folder, SHAPES)
    except pytest.skip.Exception as reason:
        print(f"without Fast DDS: {reason}")
        return [vendor for vendor in vendors if vendor != "fastdds"]
    return vendors


def main(names: list[str]) -> int:
    vendors = [vendor for vendor in VENDORS if vendor in names] or [*VENDORS]
    chosen = {*names} - {*VENDORS}
    wanted = [case for case in cases() if not chosen or case.name in chosen]
    folder = Path(tempfile.mkdtemp(prefix="dds_rtps"))
    sys.path.insert(0, str(folder))
    try:
        rows = [*run_all(wanted, build(vendors, folder), folder)]
    finally:
        shutil.rmtree(folder)
    if not names:
        write_page(rows)
    failed = {row.name for row in rows for said in row.said.values() if said.startswith("fail")}
    unknown = {
        row.name
        for row in rows
        for (vendor, role), said in row.said.items()
        if said.startswith("fail") and not known(row.name, vendor, role)
    }
    by_design = ", ".join(sorted(failed - unknown)) or "none"
    print(f"{len(rows)} cases; failures by design: {by_design}; others: {', '.join(sorted(unknown)) or 'none'}")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
