"""The tests that may be tried again on a machine that runs, each with its reason.

A test belongs here if what it claims includes a time of this machine, of its network stack or of a foreign program:
a machine under load can fail it although rtmw is right. Any other test that fails now and then has a fault, or rtmw
has: find it and mend it. Until the cause is found, the test may stand here by its full name, and its reason says so.
The closing lines show each second try with its reason. `tests/test_proofs.py` refuses a pattern that no test matches.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Listed:
    """Tests whose node ids match one of these patterns, in which `*` stands for any text, `/` too."""

    reason: str
    patterns: tuple[str, ...]


LISTED = (
    Listed(
        "programs of others find each other over DDS, and send again what was lost, at intervals of their own",
        ("tests/net/foreign/*", "tests/torture/test_dds_rtps.py::*"),
    ),
    Listed(
        "two nodes find each other over DDS, or give each other up, at intervals of the DDS library",
        (
            "tests/net/test_anew.py::*",
            "tests/net/test_cable.py::*",
            "tests/net/test_carried.py::*",
            "tests/net/test_changes.py::*",
            "tests/net/test_clock_set.py::*",
            "tests/net/test_clocks.py::*",
            "tests/net/test_code_points.py::*",
            "tests/net/test_crossing.py::*",
            "tests/net/test_crowd.py::*",
            "tests/net/test_dated.py::*",
            "tests/net/test_docs.py::*",
            "tests/net/test_engine.py::*",
            "tests/net/test_flow.py::*",
            "tests/net/test_handover.py::*",
            "tests/net/test_hearing.py::*",
            "tests/net/test_hostile.py::*",
            "tests/net/test_interfaces.py::*",
            "tests/net/test_kept.py::*",
            "tests/net/test_lanes.py::*",
            "tests/net/test_large.py::*",
            "tests/net/test_leaving.py::*",
            "tests/net/test_lock_order.py::test_nodes_that_look_carry_all_kinds_*",
            "tests/net/test_many.py::*",
            "tests/net/test_metrics.py::*",
            "tests/net/test_mismatches_shown.py::*",
            "tests/net/test_namespaces.py::*",
            "tests/net/test_network.py::*",
            "tests/net/test_new_peers.py::*",
            "tests/net/test_node.py::*",
            "tests/net/test_outbound.py::*",
            "tests/net/test_overload.py::*",
            "tests/net/test_pacing.py::*",
            "tests/net/test_packs.py::*",
            "tests/net/test_partitions.py::*",
            "tests/net/test_peer_rates.py::*",
            "tests/net/test_peers.py::*",
            "tests/net/test_predecessor.py::*",
            "tests/net/test_public_calls.py::*",
            "tests/net/test_rate_changes.py::*",
            "tests/net/test_recording.py::*",
            "tests/net/test_restart.py::*",
            "tests/net/test_restart_time.py::*",
            "tests/net/test_roster.py::*",
            "tests/net/test_services.py::*",
            "tests/net/test_shown.py::*",
            "tests/net/test_silence.py::*",
            "tests/net/test_topic_rates.py::*",
            "tests/net/test_transfer_nodes.py::*",
            "tests/net/test_wire_format.py::*",
            "tests/net/test_zero_copy.py::*",
            "tests/cli/test_graph.py::*",
        ),
    ),
    Listed(
        "nodes in namespaces, or behind a cable that cuts and slows, have to keep a lease, a rate or a time",
        (
            "tests/net/link/test_acceptance.py::test_4_*",
            "tests/net/link/test_acceptance.py::test_1[0-9]_*",
            "tests/net/link/test_bands.py::*",
            "tests/net/link/test_bounds.py::*",
            "tests/net/link/test_cuts.py::*",
            "tests/net/link/test_hostile.py::*",
            "tests/net/link/test_lines.py::*",
            "tests/net/link/test_nodes.py::*",
            "tests/net/link/test_pacing.py::*",
            "tests/net/link/test_promised.py::*",
            "tests/net/link/test_security.py::*",
            "tests/cli/test_log_bus.py::*",
            "tests/torture/test_wire_engine.py::*",
            "tests/torture/test_wire_topics.py::*",
        ),
    ),
    Listed(
        "the sessions' real sockets are given up after a silence, or use a share of the processor that is measured",
        ("tests/net/session/test_carrier.py::*", "tests/net/session/test_dialling.py::*"),
    ),
    Listed(
        "processes are killed or stopped at a moment, and others have to notice within a lease or a time",
        (
            "tests/cli/test_files.py::*",
            "tests/system/*",
            "tests/cli/test_ending.py::*",
            "tests/log/test_killed_writer.py::*",
            "tests/transfer/between/*",
            "tests/transfer/carry/test_kills.py::*",
            "tests/transfer/carry/test_peers.py::*",
            "tests/transfer/programs/*",
            "tests/transfer/test_killed_store.py::*",
        ),
    ),
    Listed(
        "a deadline, an interval, a lease or a lifetime of milliseconds has to be kept, and none of the next missed",
        (
            "tests/test_qos_interval_deadline.py::*",
            "tests/test_qos_lease.py::*",
            "tests/test_qos_lifetime.py::*",
            "tests/test_aio.py::*",
            "tests/test_fileno.py::*",
            "tests/test_latency.py::*",
            "tests/test_listener.py::*",
            "tests/test_log_cursors.py::*",
            "tests/test_waitset.py::*",
        ),
    ),
    Listed(
        "a replay keeps the times of its recording",
        (
            "tests/player/test_player.py::*",
            "tests/player/test_replay.py::*",
            "tests/player/test_pacing.py::*",
            "tests/cli/test_replay.py::*",
        ),
    ),
    Listed(
        "a recorder has to keep up with publishers that do not wait for it",
        (
            "tests/recorder/test_collector.py::*",
            "tests/recorder/test_files.py::*",
            "tests/recorder/test_missing.py::*",
            "tests/recorder/test_recorder.py::*",
            "tests/cli/test_record.py::*",
            "tests/recording/test_live.py::*",
        ),
    ),
    Listed(
        "the demonstration plays several programs at their real rates, and none may be late",
        (
            "tests/demo/test_durable.py::*",
            "tests/demo/test_host.py::*",
            "tests/demo/test_offline.py::*",
            "tests/test_examples.py::*",
            "tests/test_examples_c.py::*",
            "tests/test_readme.py::*",
        ),
    ),
    Listed(
        "Spark's streams and their JVM start, poll and end in times of their own",
        (
            "tests/spark/test_cluster.py::*",
            "tests/spark/test_delivery.py::*",
            "tests/spark/test_demo.py::*",
            "tests/spark/test_driver.py::*",
            "tests/spark/test_examples.py::*",
            "tests/spark/test_follow.py::*",
            "tests/spark/test_java.py::*",
            "tests/spark/test_log.py::*",
            "tests/spark/test_playback.py::*",
            "tests/spark/test_sink.py::*",
            "tests/spark/test_stream.py::*",
        ),
    ),
    Listed(
        "a sample of a torture: how far it comes in its seconds depends on the machine",
        (
            "tests/torture/test_fuzz.py::*",
            "tests/torture/test_instructions.py::*",
            "tests/torture/test_log_power.py::*",
            "tests/torture/test_pressure.py::*",
            "tests/torture/test_soak.py::*",
            "tests/torture/test_wire_types.py::*",
        ),
    ),
    Listed(
        "a command shows rates and delays of its intervals, or is followed while another program runs",
        (
            "tests/cli/test_command.py::*",
            "tests/cli/test_echo.py::*",
            "tests/cli/test_metrics.py::*",
            "tests/cli/test_publish.py::*",
            "tests/cli/test_watching.py::*",
        ),
    ),
    Listed(
        "a server of the test answers late, or not at all, and is tried again after pauses",
        ("tests/recorder/test_uploads.py::*", "tests/recording/test_remote.py::*"),
    ),
    Listed(
        "a bench is run, and judges times that it has measured",
        ("tests/bench/test_bench.py::*", "tests/bench/test_log_questions.py::*"),
    ),
)


def reason(test: str, listed: tuple[Listed, ...] = LISTED) -> str | None:
    """Why the test with this node id may be tried again on a machine that runs; None: it may not."""
    return next((each.reason for each in listed if any(fnmatchcase(test, it) for it in each.patterns)), None)
