"""The order of `make test`: what takes longest begins first, so that no worker is left with it at the end.

A worker runs the files that it is given one after the other, each file whole. Those of Spark go to one worker: there
they share a session, and each further one is a JVM that starts and compiles for most of a minute. The files whose tests
start a JVM of their own anyhow go wherever there is room. Those of foreign DDS programs go to one worker, too, which
compiles these programs once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

SPARK = "tests/spark"
FOREIGN = "tests/net/foreign"
SHARED = (SPARK, FOREIGN)
"""Folders whose files share what takes long to begin."""
WITH_OWN_JVM = ("tests/spark/test_cluster.py", "tests/spark/test_examples.py")

LONGEST = (
    SPARK,
    FOREIGN,
    "tests/spark/test_cluster.py",
    "tests/types/test_classes.py",
    "tests/relay/test_server.py",
    "tests/shm/test_native.py",
    "tests/types/test_codec.py",
    "tests/replica/test_world.py",
    "tests/spark/test_examples.py",
    "tests/torture/test_log_power.py",
    "tests/test_packages.py",
    "tests/net/test_services.py",
    "tests/cli/test_ending.py",
    "tests/model/test_model.py",
    "tests/recording/catalog/test_ingest.py",
    "tests/test_examples.py",
    "tests/transfer/programs/test_queue_mutants.py",
    "tests/torture/test_instructions.py",
    "tests/transfer/carry/test_kills.py",
    "tests/torture/test_wire_link.py",
    "tests/transfer/between/test_faults.py",
    "tests/transfer/between/test_progress.py",
    "tests/net/link/test_found.py",
    "tests/cli/test_record.py",
    "tests/net/link/test_nodes.py",
    "tests/transfer/client/test_batch.py",
    "tests/recording/catalog/test_remote_tables.py",
    "tests/transfer/between/test_between.py",
    "tests/cli/test_keys.py",
    "tests/cli/test_transfers.py",
    "tests/net/link/test_security.py",
    "tests/transfer/programs/test_full.py",
    "tests/net/test_leaving.py",
    "tests/test_proofs.py",
    "tests/test_stubs.py",
    "tests/net/test_kept.py",
    "tests/net/link/test_pacing.py",
    "tests/torture/test_wire_types.py",
    "tests/transfer/test_trees.py",
    "tests/transfer/carry/test_peers.py",
    "tests/recorder/test_uploads.py",
    "tests/transfer/programs/test_deaths.py",
    "tests/net/link/test_acceptance.py",
    "tests/net/test_crowd.py",
    "tests/bench/test_log_questions.py",
    "tests/net/test_hostile.py",
    "tests/torture/test_fuzz.py",
    "tests/net/test_changes.py",
    "tests/net/link/test_landing_bare.py",
    "tests/net/test_public_calls.py",
    "tests/net/test_network.py",
    "tests/system/test_every_step.py",
    "tests/bench/test_transfer_questions.py",
    "tests/torture/test_log.py",
    "tests/net/test_hearing.py",
    "tests/cli/test_hostile.py",
    "tests/net/test_carried.py",
    "tests/transfer/between/test_kills.py",
    "tests/net/test_node.py",
    "tests/net/test_namespaces.py",
    "tests/net/test_standstill.py",
    "tests/transfer/wire/test_worlds.py",
    "tests/relay/test_agent.py",
    "tests/net/link/test_lines.py",
    "tests/net/link/test_wire.py",
    "tests/net/link/test_network.py",
    "tests/net/link/test_promised.py",
    "tests/net/link/test_hostile.py",
    "tests/net/security/test_keys.py",
    "tests/relay/test_world.py",
    "tests/bench/test_bench.py",
    "tests/shm/test_creation.py",
    "tests/net/session/test_machine.py",
    "tests/recording/test_remote.py",
    "tests/net/test_handover.py",
    "tests/cli/test_completion.py",
    "tests/net/link/test_users.py",
    "tests/transfer/programs/test_send_and_take.py",
)
"""Units that take 20 s or more, the longest first; the others follow as they were found."""


def unit(nodeid: str) -> str:
    """What one worker runs as a whole: the files that share something, or the file of the test."""
    file = nodeid.partition("::")[0]
    folder = next((shared for shared in SHARED if file.startswith(f"{shared}/")), "")
    return folder if folder and file not in WITH_OWN_JVM else file


def rank(nodeid: str) -> int:
    """The place of a test's unit in the order."""
    name = unit(nodeid)
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only in a worker: tests that are run by hand keep the order of their files."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """With `--dist loadfile`: its scheduler, with these units."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Units(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit(nodeid)

    config.option.loadscopereorder = False  # by the number of tests: that says little of their time
    return Units(config, log)
