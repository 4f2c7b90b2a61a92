"""Readers of others: what npm has to install, in a folder that outlives the tests."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
INSTALL_S = 240
"""For npm; then the tests that wanted it are skipped."""

Reader = Callable[[Path], dict[str, Any]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first of these tests waits until all is installed."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(INSTALL_S + 120))


@pytest.fixture(scope="session")
def node_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with read.js, watch.js and what they need; skips where npm cannot install that."""
    for tool in ("npm", "node"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: apt-get install nodejs npm")
    cache = getattr(request.config, "cache", None)  # None if the run is to leave nothing behind
    folder = Path(cache.mkdir("readers")) if cache is not None else tmp_path_factory.mktemp("readers")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the tests of other processes want the same folder
        wanted = (HERE / "package.json").read_text()
        if not (folder / "installed").exists() or (folder / "installed").read_text() != wanted:
            (folder / "package.json").write_text(wanted)
            _install(folder)
            (folder / "installed").write_text(wanted)
        for script in HERE.glob("*.js"):
            copy = folder / script.name
            if not copy.exists() or copy.read_bytes() != script.read_bytes():
                shutil.copy(script, copy)
    return folder


def _install(folder: Path) -> None:
    command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm install took more than {INSTALL_S} s")
    if done.returncode:
        pytest.skip(f"npm could not install the readers of others: {done.stderr.strip()[-300:]}")


@pytest.fixture
def read_by_node(node_folder: Path) -> Reader:
    """What the readers of @mcap/core and @foxglove find in a recording; see read.js."""

    def read(path: Path) -> dict[str, Any]:
        command = ["node", str(node_folder / "read.js"), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout)[str(path)])

    return read
