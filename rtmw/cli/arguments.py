"""The arguments of every command, in one place."""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, cast

import rtmw
from rtmw.addresses import place_to_listen
from rtmw.cli import (
    clean,
    completion,
    dashboard,
    delay,
    doctor,
    echo,
    files_arguments,
    foxglove,
    graph,
    log_arguments,
    metrics,
    node,
    node_check,
    node_doctor,
    node_explain,
    node_keys,
    node_status,
    plot_arguments,
    publish,
    rates,
    record_arguments,
    recording_arguments,
    relay_arguments,
    replay_arguments,
    report_arguments,
    service,
    top,
    topic,
    trace,
    transfers_arguments,
)
from rtmw.cli.filters import Filter
from rtmw.cli.quantities import argument, count, domain_number, natural, positive, seconds, seconds_or_0, size
from rtmw.cli.settings_arguments import add_settings
from rtmw.cli.values import load_type
from rtmw.net.settings import NODE
from rtmw.optional import needing_dds
from rtmw.qos import PRIORITIES, Reliability
from rtmw.visible import visible

Run = Callable[[argparse.Namespace], int]
Commands = Any  # what `add_subparsers` gives; argparse does not export its class


class _Version(argparse.Action):
    """Looks the version up when it is asked for: that takes as long as all else that a command imports."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.exit(message=f"rtmw {rtmw.__version__}\n")


def _deeper(action: argparse.Action, word: str) -> list[str]:
    """The commands that have a command of this name, each with it: `topic echo` for `echo`."""
    if action.nargs != argparse.PARSER:
        return []
    parsers = cast("dict[str, argparse.ArgumentParser]", action.choices)
    return [
        f"{name} {word}"
        for name, parser in parsers.items()
        for inner in parser._actions
        if inner.nargs == argparse.PARSER and word in (inner.choices or ())
    ]


class _Parser(argparse.ArgumentParser):
    """Names the nearest command or choice for a mistyped one, and says in visible text what it was given. Parsers of
    commands are of this class, too."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError:
            meant = _deeper(action, str(value)) or difflib.get_close_matches(
                str(value), map(str, action.choices or ()), n=1
            )
            if not meant:
                raise
            whole = [f"`{self.prog} {one}`" if action.nargs == argparse.PARSER else f"`{one}`" for one in meant]
            said = f"there is no {value!r}; did you mean {' or '.join(whole)}?"
            raise argparse.ArgumentError(action, said) from None

    def error(self, message: str) -> NoReturn:
        super().error(visible(message))


def build_parser() -> argparse.ArgumentParser:
    """The parser of `rtmw`; the namespace it gives has a `run` to call with it."""
    parser = _Parser(prog="rtmw", description="Real-time publish/subscribe between programs.")
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and end")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_demo(commands)
    _add_watching(commands)
    topics = commands.add_parser("topic", help="look at topics, and publish by hand")
    _add_topic_commands(topics.add_subparsers(metavar="COMMAND", required=True))
    services = commands.add_parser("service", help="list services, and call one by hand")
    service.add_commands(services.add_subparsers(metavar="COMMAND", required=True), _add)
    _add_node(commands)
    files_arguments.add_commands(commands, _add)
    transfers_arguments.add_commands(commands, _add)
    relay_arguments.add_commands(commands)
    _add_recordings(commands)
    _add_upkeep(commands)
    return parser


def _add(commands: Commands, name: str, run: Run, help: str, json: bool = True) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
    parser.set_defaults(run=run)
    parser.add_argument(
        "--domain",
        type=domain_number,
        default=os.environ.get("RTMW_DOMAIN", "0"),
        metavar="N",
        help="number of the domain (default: environment RTMW_DOMAIN, else 0)",
    )
    if json:
        parser.add_argument(
            "--json", action="store_true", help="for programs: JSON; one object a line where it streams"
        )
    return parser


def _add_demo(commands: Commands) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo", help="show this machine's telemetry flowing between processes"
    )
    parser.set_defaults(run=_run_demo)
    parser.add_argument("--seconds", type=seconds, default=10.0, help="how long to show it (default 10)")
    parser.add_argument("--no-spark", action="store_true", help="read and replay the recording without Spark")
    parser.add_argument("--install-spark", action="store_true", help="let pip install Spark, where it is missing")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="for the recording and the plot (default rtmw-demo)")


def _run_demo(arguments: argparse.Namespace) -> int:
    with needing_dds("`rtmw demo`"):
        from rtmw.demo.course import FOLDER, run  # psutil and the topics are only needed here

    folder = Path(arguments.output or FOLDER)
    return run(arguments.seconds, folder, spark=not arguments.no_spark, install=arguments.install_spark)


def _add_watching(commands: Commands) -> None:
    parser = _add(commands, "top", top.top, "show what happens on the topics: rates, drops, latency, who is behind")
    parser.add_argument("--sort", choices=top.SORT, default="topic", help="the largest first (default: by topic)")
    parser.add_argument("--once", action="store_true", help="show one window, and end")
    parser.add_argument("--events", action="store_true", help="instead, print who comes, leaves and dies")
    _add_windows(parser)
    parser = _add(commands, "graph", graph.graph, "show who talks to whom")
    parser.add_argument("--dot", action="store_true", help="print it for graphviz")
    parser.add_argument("--svg", metavar="FILE", help="write it as a picture")
    parser = _add(
        commands, "trace", trace.trace, "show each message of topics: published, taken, dropped, by whom, when"
    )
    parser.add_argument("topics", nargs="+", metavar="topic")
    parser.add_argument("--count", type=count, help="events to print (default: until Ctrl-C)")
    parser.add_argument(
        "--for", type=seconds, dest="seconds", metavar="SECONDS", help="how long (default: until Ctrl-C)"
    )
    parser = _add(
        commands, "metrics", metrics.metrics, "print the domain's metrics as Prometheus reads them", json=False
    )
    help = "serve them there under /metrics, and /health, until SIGINT or SIGTERM; port 0: any that is free"
    parser.add_argument("--listen", type=argument(place_to_listen), metavar="ADDRESS:PORT", help=help)
    log_arguments.add_place(parser, "those of the replicated logs of the node there, [log] listen, not of a domain")
    foxglove.add_command(commands, _add)

    parser = _add(
        commands, "dashboard", dashboard.dashboard, "serve a page that shows the domain, read-only", json=False
    )
    help = "where the page is served, until SIGINT or SIGTERM (default 127.0.0.1:9466); port 0: any that is free"
    parser.add_argument(
        "--listen",
        type=argument(place_to_listen),
        default=("127.0.0.1", dashboard.PORT),
        metavar="ADDRESS:PORT",
        help=help,
    )
    help = "listen on an address that other hosts reach: whoever has the URL reads, and it is not encrypted"
    parser.add_argument("--allow-remote", action="store_true", help=help)


def _add_windows(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--window", type=seconds, default=1.0, help="seconds to measure over (default 1)")
    parser.add_argument("--count", type=count, help="windows to show (default: until q or Ctrl-C)")


def _add_topic_commands(commands: Commands) -> None:
    listed = _add(commands, "list", topic.list_topics, "list the topics of the domain")
    listed.add_argument("--names", action="store_true", help="only their names, one a line")
    info = _add(
        commands, "info", topic.info, "show a topic's endpoints, their QoS and drops, and pairs that do not match"
    )
    info.add_argument("topic")
    queue = _add(commands, "queue", topic.queue, "show what lies in a topic's queues")
    queue.add_argument("topic")
    help = "forget what a topic keeps for late subscribers; who is there takes what it has not read"
    _add(commands, "clear", topic.clear, help).add_argument("topic")
    for name, run, what in (
        ("hz", rates.hz, "messages a second"),
        ("bw", rates.bw, "bytes a second"),
    ):
        parser = _add(commands, name, run, f"show the {what} of topics, from their counters, without subscribing")
        parser.add_argument("topics", nargs="*", metavar="topic", help="default: all")
        _add_windows(parser)
    parser = _add(commands, "delay", delay.delay, "show how long a topic's messages take from publish to take")
    parser.add_argument("topic")
    _add_windows(parser)
    _add_echo(commands)
    _add_publish(commands)


def _add_echo(commands: Commands) -> None:
    parser = _add(commands, "echo", echo.echo, "print the messages of topics as they come")
    parser.add_argument("topic", help="a name, or a pattern such as 'pump/*', which also means topics that come later")
    parser.add_argument("-n", "--count", type=count, help="messages to print (default: until Ctrl-C)")
    parser.add_argument("--wait", action="store_true", help="wait for a topic that is not there yet")
    parser.add_argument("--timeout", type=seconds, help="give up after so many seconds without a message to print")
    parser.add_argument("--field", metavar="a.b", help="print only this field of the value")
    parser.add_argument(
        "--filter",
        type=Filter.parse,
        metavar="'a.b > 5'",
        help="print only messages of which this is true; operators: == != < <= > >=",
    )
    parser.add_argument("--history", type=natural, default=1, help="start with so many kept messages (default 1)")


def _add_publish(commands: Commands) -> None:
    parser = _add(commands, "pub", publish.publish, "publish messages by hand")
    parser.add_argument("topic")
    parser.add_argument(
        "value", help="JSON for the type that the topic carries; text where it carries none, bytes, str"
    )
    types = parser.add_mutually_exclusive_group()
    types.add_argument(
        "--type",
        type=load_type,
        metavar="MODULE:CLASS",
        help="or str, dict (default: what the topic carries)",
    )
    types.add_argument("--bytes", action="store_true", help="publish the text as bytes, whatever the topic carries")
    parser.add_argument("--rate", type=positive, default=1.0, help="messages a second (default 1)")
    parser.add_argument("--count", type=count, default=1, help="messages to publish (default 1)")
    parser.add_argument("--priority", type=natural, choices=range(PRIORITIES), default=0)
    parser.add_argument("--lifetime", type=seconds, help="seconds after which a message is no longer delivered")
    parser.add_argument("--reliability", choices=[item.name for item in Reliability], default=Reliability.ADAPTIVE.name)
    parser.add_argument("--history", type=natural, default=1, help="messages kept for late subscribers (default 1)")
    parser.add_argument("--wait", type=count, metavar="N", help="first wait for N subscribers")
    parser.add_argument("--timeout", type=seconds, help="seconds to wait for them (default: for ever)")


def _add_node(commands: Commands) -> None:
    help = "carry topics to other hosts through DDS, until SIGINT or SIGTERM"
    parser = _add(commands, "node", node.run, help)
    parser.allow_abbrev = False  # else `--peer` of `node explain` is taken for a short --peers or --peer-rates
    parser.set_defaults(domain=None)  # not given: the file may say it
    parser.add_argument("--config", metavar="FILE", help="settings in TOML, by the same names; SIGHUP reads it again")
    types = {"dds_domain": domain_number, "lease": seconds, "handover": seconds_or_0, "metrics_port": natural}
    add_settings(parser, NODE, types, without=("domain",))
    parser.add_argument("--systemd-unit", action="store_true", help="print a unit for systemd that starts it, and end")
    shown = parser.add_subparsers(metavar="COMMAND", required=False)
    _add(shown, "list", node_status.list_nodes, "list the node of the domain and its peers")
    _add(shown, "info", node_status.info, "show what crosses and what does not, what was dropped, and why")
    help = "say what a node would do with the settings of a file, and what is in its way; nothing starts"
    parser = _add(shown, "check", node_check.check, help)
    parser.set_defaults(domain=None)  # not given: the file may say it
    parser.add_argument("file", metavar="FILE", help="settings in TOML")
    help = (
        "say only whether the rules of the file allow a peer this, such as rtmw://plant/a publish x; status 0, 1 or 2"
    )
    parser.add_argument("--as", nargs=3, dest="right", metavar=("PEER", "VERB", "SUBJECT"), help=help)
    parser.add_argument("--priority", type=natural, help="of the messages, for --as")
    parser.add_argument("--size", type=size, metavar="BYTES", help="of the largest message, for --as")
    parser = _add(shown, "explain", node_explain.explain, "say what the rules let a peer do, and why")
    parser.add_argument("topic", metavar="SUBJECT", help="a topic, or SERVICE@NODE for transfers")
    parser.add_argument("--peer", required=True, metavar="NAME", help="in its certificate: rtmw://SITE/NODE")
    parser.add_argument("--file", metavar="FILE", help="settings with the rules (default: those of the node)")
    kinds = shown.add_parser("keys", help="make, request, sign, install, renew and show keys of nodes")
    node_keys.add_commands(partial(_add, kinds.add_subparsers(metavar="COMMAND", required=True)))
    help = "look for what is in the way between this host and the others; status 1 for a fault"
    parser = _add(shown, "doctor", node_doctor.doctor, help)
    _strict(parser)
    log_arguments.add_place(parser, "look at the replicated logs of the node there, [log] listen, not at a domain")


def _strict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--strict", action="store_true", help="status 3 if there are remarks alone (else 0)")


def _add_recordings(commands: Commands) -> None:
    parser = _add(commands, "record", record_arguments.run, "write what flows on topics into recordings (MCAP files)")
    record_arguments.add_arguments(parser)
    parser = _add(commands, "replay", replay_arguments.run, "publish what recordings hold, each message at its time")
    replay_arguments.add_arguments(parser)
    recording_arguments.add_commands(commands)
    report_arguments.add_command(commands)
    plot_arguments.add_command(commands)
    logs = commands.add_parser("log", help="look into durable logs, append, check, save, trim; keep topics in one")
    kinds = logs.add_subparsers(metavar="COMMAND", required=True)
    log_arguments.add_folder_commands(kinds)
    log_arguments.add_node_commands(kinds)
    log_arguments.add_bus_commands(partial(_add, kinds))


def _add_upkeep(commands: Commands) -> None:
    help = "check the books of the domain, its participants and this machine; status 1 for a fault"
    parser = _add(commands, "doctor", doctor.doctor, help)
    _strict(parser)
    parser.add_argument("--fix", action="store_true", help="first sweep after the dead and reclaim what nobody uses")
    parser = _add(commands, "clean", clean.clean, "remove the shared memory of the domain", json=False)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--force", action="store_true", help="also while living programs are attached")
    completion.add_command(commands)
