"""Whatever its peer sends, a line lives and publishes what was sent; whenever it is cut, it goes on from there.

Here some seconds of it; `make torture-wire` goes on for minutes, and tries every mutant.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.torture.makefile import Makefile
from tests.torture.wire.link_corpus import write
from tests.torture.wire.link_fuzz import keys, keys_to_greet
from tests.whole import sample

RIG = Makefile(Path(__file__).parent / "wire", "link.mk")

pytestmark = pytest.mark.timeout(900)
"""The programs are compiled first."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs."""
    return RIG.build(tmp_path_factory.mktemp("link"), "build")


def counted(done: subprocess.CompletedProcess[str], what: str) -> int:
    """How many of these a program says that there were."""
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.search(rf"(\d+) {what}", done.stdout)
    assert told is not None, done.stdout
    return int(told[1])


# Proves G221.
def test_a_peer_that_keeps_no_rule_harms_nothing_and_ends_its_connections(built: Path) -> None:
    assert counted(RIG.make(built, "fuzz", "SEED=1", "SECONDS=2"), "rounds") > 0


def test_what_real_lines_send_is_read_and_what_was_changed_of_it_harms_nothing(built: Path, tmp_path: Path) -> None:
    assert write(tmp_path) == 6
    done = RIG.make(built, "inputs", "SEED=1", "ROUNDS=100", f"CORPUS={tmp_path}")
    assert counted(done, "inputs") == 106


# Proves G222, G243.
def test_handshake_and_hello_harm_nothing_whatever_is_changed_of_them_on_the_way(built: Path, tmp_path: Path) -> None:
    done = RIG.make(built, "greet", "SEED=1", "ROUNDS=800", f"KEYS={keys_to_greet(tmp_path)}")
    assert counted(done, "greetings") > 100
    assert counted(done, "refused") > 100


@pytest.mark.parametrize(
    "rule",
    sample(
        [
            "a certificate is asked for, and looked at",
            "the tag of a record is compared",
            "new keys follow a KeyUpdate",
            "keys are changed in time",
            "the sum of a hello is compared",
            "no frame of a line comes before the hello",
        ],
        2,
    ),
)
def test_it_is_seen_when_a_rule_of_greeting_is_missing(built: Path, rule: str, tmp_path: Path) -> None:
    done = RIG.make(built, "mutants", f"ONLY={rule}", f"KEYS={keys_to_greet(tmp_path)}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"mutant {rule}: found" in done.stdout


# Proves G220, G226.
def test_a_cut_at_each_frame_loses_doubles_and_reorders_nothing(built: Path) -> None:
    assert counted(RIG.make(built, "cuts", "SEED=1", "ROUNDS=300"), "frames, a cut at each") > 50


@pytest.mark.parametrize("has_tls", [False, True])
# Proves G227.
def test_no_two_threads_of_a_line_touch_a_word_without_an_order(built: Path, tmp_path: Path, has_tls: bool) -> None:
    done = RIG.make(built, "threads", "SECONDS=1", f"KEYS={keys(tmp_path) if has_tls else ''}")
    assert counted(done, "messages came") > 100


@pytest.mark.parametrize(
    "rule",
    sample(
        [
            "more may come than there is",
            "what was not sent is acknowledged",
            "what was sent beyond the room is kept",
            "what was not acknowledged is sent again",
            "what came in part is forgotten",
            "a large message that has left is not subtracted",
        ],
        2,
    ),
)
# Proves G220.
def test_it_is_seen_when_a_rule_is_missing(built: Path, rule: str) -> None:
    done = RIG.make(built, "mutants", f"ONLY={rule}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"mutant {rule}: found" in done.stdout
