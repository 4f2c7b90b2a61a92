"""`rtmw node check`: what a node would do with the settings of a file, without starting one."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rtmw import observe, shm
from rtmw.cli import parsing
from rtmw.cli.common import look_at, open_to
from rtmw.cli.environment import UNKNOWN_MOST, Check, not_looked_up
from rtmw.cli.metrics import OfDomain
from rtmw.cli.node import base_settings
from rtmw.cli.node_explain import check_right
from rtmw.cli.node_status import find_status
from rtmw.cli.parsing import natural, runs
from rtmw.cli.terminal import Table, duration, show, show_json, size
from rtmw.errors import DomainNotFound, RtmwError
from rtmw.settings import SettingsFile
from rtmw.text.patterns import is_own
from rtmw.text.strict_json import JsonError

if TYPE_CHECKING:
    from rtmw.net.dds.network import Line
    from rtmw.net.settings import Settings
    from rtmw.observe.node_status import NodeStatus


EMPTY = "it is empty: what no option says has its default"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, check)
    parser.set_defaults(domain=None)  # not given: the file may say it
    parser.add_argument("file", metavar="FILE", help="settings in TOML")
    help = (
        "say only whether the rules of the file allow a peer this, such as rtmw://plant/a publish x; status 0, 1 or 2"
    )
    parser.add_argument("--as", nargs=3, dest="right", metavar=("PEER", "VERB", "SUBJECT"), help=help)
    parser.add_argument("--priority", type=natural, help="of the messages, for --as")
    parser.add_argument("--size", type=parsing.size, metavar="BYTES", help="of the largest message, for --as")


def check(arguments: argparse.Namespace) -> int:
    """Print what the node would do; status 1 if anything is in its way. With `--as`: what a peer may (check_right)."""
    from rtmw.net.services import names_only_logs
    from rtmw.net.settings import NODE, make_settings

    if arguments.right:
        return check_right(arguments)
    path = Path(arguments.file)
    given = {name: getattr(arguments, name) for name in NODE.by_name}
    file = SettingsFile.read(path)
    settings = make_settings(file, given, base_settings())
    found, topics = [] if file.values else [Check("file", EMPTY)], Table("", (), [])
    if names_only_logs(settings, file, given):
        found += [Check("node", f"{settings.node_name}, without a domain: the file names nothing but logs")]
        found += _services(settings, path)
    else:
        found += checks(settings, path)
        topics = topics_table(settings)
    well = not any(one.advice for one in found)
    if arguments.json:
        named = [dict(zip(topics.columns, row, strict=True)) for row in topics.rows]
        show_json({"file": str(path), "well": well, "checks": found, "topics": named})
        return 0 if well else 1
    rows = [(one.name, one.found, one.advice or None) for one in found]
    show(Table(f"A node with {path}", ("what", "found", "advice"), rows))
    if topics.rows:
        show(topics)
    return 0 if well else 1


def checks(settings: Settings, path: Path) -> Iterator[Check]:
    """The settings that the node would use, and the obstacles in its way now. `path`: of the settings."""
    from rtmw.net.dds.network import choose

    line = choose(settings)
    told = _told(settings)
    yield _domain(settings)
    if isinstance(told, JsonError):
        from rtmw.cli.node_doctor import unreadable

        yield unreadable(told)
        told = status = None
    else:
        status = told if told and told.dds_domain == settings.wire_domain else None
        yield _node(settings, told)
    yield _dds(settings)
    yield _interface(settings, line)
    yield from _datagrams(line)
    yield from _peers(settings, line, path)
    yield Check("topics that leave", ", ".join(settings.topics_out) or "none")
    yield Check("topics that come in", ", ".join(settings.topics_in) or "none")
    yield from _ways(settings, line)
    yield Check("rate of all", f"{size(settings.max_rate)}/s" if settings.max_rate else "no limit")
    for pattern, rate in settings.topic_rates:
        yield Check(f"rate of {pattern}", f"{size(rate)}/s")
    for pattern, rate in settings.peer_rates:
        yield Check(f"rate towards {pattern}", f"{size(rate)}/s")
    yield Check("a silent peer is gone", f"after {duration(settings.lease)}")
    yield Check("RELIABLE topics wait for the next node", duration(settings.handover or None) or "no")
    yield _metrics(settings, status, path)
    yield from _services(settings, path)
    yield from _security(settings, status, path)


def _told(settings: Settings) -> NodeStatus | JsonError | None:
    """The status of a node of this domain, on whatever DDS domain it carries that, or why it cannot be read; None:
    there is none."""
    try:
        return find_status(settings.domain)
    except DomainNotFound:
        return None
    except JsonError as error:
        return error


def _domain(settings: Settings) -> Check:
    from rtmw.net.settings import other_pool

    try:
        with look_at(settings.domain) as domain:
            whose = open_to(shm.group_of(settings.domain))
            found, asked = f"{settings.domain}, with a pool of {size(domain.pool)}{whose}", settings.pool_asked
            advice = other_pool(domain.pool, asked)[1] if asked not in (None, domain.pool) else ""
            return Check("domain", found, advice)
    except DomainNotFound:
        whose = open_to(settings.group)
        return Check("domain", f"{settings.domain}, made by the node with a pool of {size(settings.pool)}{whose}")


def _node(settings: Settings, told: NodeStatus | None) -> Check:
    """Checks whether a node runs for the domain. One that carries it on another DDS domain is no obstacle: one node
    may carry a domain on each of two."""
    from rtmw.net.settings import NODE

    if told is None:
        return Check("node", "none runs")
    if told.dds_domain == settings.wire_domain:
        taken = ", ".join(sorted(NODE.reloaded))
        return Check("node", f"process {told.pid} runs; SIGHUP takes in {taken}, a new start all")
    other = f"process {told.pid} carries domain {settings.domain} on DDS domain {told.dds_domain}"
    what = "stop it first if this file is to take its place, else both carry the domain"
    return Check("node", f"none runs on DDS domain {settings.wire_domain}; {other}: {what}")


def _dds(settings: Settings) -> Check:
    from rtmw.net.dds.wire import udp_ports

    ports = udp_ports(settings.wire_domain)
    names = ", names of ROS 2" if settings.ros2 else ""
    return Check("DDS domain", f"{settings.wire_domain}{names}, UDP ports {ports[0]} to {ports[-1]}")


def _interface(settings: Settings, line: Line | None) -> Check:
    from rtmw.net.dds.network import are_named_by_experts, why_none

    if line is None:
        return Check("interface", "none to use", why_none(settings))
    missing = [name for name in settings.wire_interfaces if name not in line.names]
    if are_named_by_experts():
        return Check("interface", "the one that CYCLONEDDS_URI names")
    version = "IPv6" if line.is_ipv6 else "IPv4"
    found = f"{', '.join(line.names) or 'the one that leads to the peers'}, {version}"
    advice = f"{', '.join(missing)}: down, or without an address; used as soon as there is one" if missing else ""
    return Check("interface", found, advice)


def _ways(settings: Settings, line: Line | None) -> Iterator[Check]:
    from rtmw.cli.node_doctor import ways

    yield from ways(settings.patterns, ", ".join(line.names if line else settings.wire_interfaces) or None)


def _datagrams(line: Line | None) -> Iterator[Check]:
    """How large datagrams of DDS would be, where the interface is known before the peers are looked up."""
    from rtmw.net.dds.network import are_named_by_experts, is_sized_by_experts

    if is_sized_by_experts():
        yield Check("datagrams", "as large as CYCLONEDDS_URI says")
    elif line is not None and (line.names or are_named_by_experts()):
        yield Check("datagrams", f"{line.datagram:,} bytes at most")


def _peers(settings: Settings, line: Line | None, path: Path) -> Iterator[Check]:
    from rtmw.net.dds.network import addresses, are_ipv6
    from rtmw.net.settings import place_of

    if not settings.peers:
        yield Check("peers", "found by multicast")
        return
    place, unknown = place_of(path, "peers"), 0  # once: to find it, the file is read
    for number, peer in enumerate(settings.peers):
        if unknown >= UNKNOWN_MOST:
            yield not_looked_up("further peer", len(settings.peers) - number, place)
            return
        try:
            (address,) = addresses((peer,), line.is_ipv6 if line else are_ipv6(settings.peers))
        except RtmwError as error:
            unknown += 1
            yield Check(f"peer {peer}", "not found", f"{place}: {error}")
        else:
            yield Check(f"peer {peer}", address)


def _metrics(settings: Settings, status: NodeStatus | None, path: Path) -> Check:
    """Could they be served there? The node that runs may have the port."""
    from rtmw.net.http_server import MetricsServer
    from rtmw.net.settings import place_of
    from rtmw.text.addresses import metrics_url

    port, address = settings.metrics_port, settings.metrics_address
    if port is None:
        return Check("metrics", "not served")
    url = metrics_url(address, port) if port else f"any free port of {address}"
    if status is not None and (status.metrics_address, status.metrics_port) == (address, port):
        return Check("metrics", url)
    try:
        of_domain = OfDomain(settings.domain)
        MetricsServer(address, port, of_domain, of_domain.fault).close()
    except RtmwError as error:
        return Check("metrics", url, f"{place_of(path, 'metrics_port')}: {error}")
    return Check("metrics", url)


def _services(settings: Settings, path: Path) -> Iterator[Check]:
    """The services that it would host, where they keep things, and where the cores of other nodes meet them."""
    if not settings.serve:
        yield Check("services", "none")
        return
    yield Check("services", ", ".join(settings.serve))
    if settings.data is not None:
        yield _data(settings.data, path)
    if "log" in settings.serve:
        yield from _logs(settings.node_name, path)
    if "transfer" not in settings.serve:
        return
    sessions, how = settings.transfer, "with TLS" if settings.transfer.keys else "without TLS"
    for place in sessions.listen:
        yield Check("transfers are accepted at", f"{place}, {how}")
    for place in sessions.connect:
        yield Check(f"transfers with {place}", how)
    if not sessions.is_used:
        yield Check("transfers", "between programs of this host: [transfer] says neither listen nor connect")


def _logs(node: str, path: Path) -> Iterator[Check]:
    """Can others have logs with this node, and does the control store answer?"""
    from rtmw.cli.node_doctor import connecting, keys, listening, why_not
    from rtmw.net.security.health import KeysHealth
    from rtmw.net.settings import place_of
    from rtmw.replica.control.settings import read_log

    settings = read_log(path)
    link, own = settings.link, KeysHealth().look(settings.link)
    if own:
        yield keys(own)
    ports = [place for place in link.listen if why_not(place) and _is_at(node, place, link.keys)]
    yield from listening(link, path, "log", ports)
    yield from connecting(link, path, "log")
    if not link.is_used:
        yield Check("logs", "kept by this node alone, for nobody: [log] says neither listen nor connect")
    if link.keys and not any("serve" in rule.allows for rule in settings.rules.rules):
        words = 'no other node may keep logs with this one: write an [[allow]] with peer = "rtmw://…", serve = ["log"]'
        yield Check("rules of peers", "none", words)
    found, fault = settings.control.tried()
    yield Check("control store", found, fault and f"{place_of(path, 'store', 'control')}: {fault}")


def _is_at(node: str, place: str, folder: Path | None) -> bool:
    """Does this node run, and listen there?"""
    from rtmw.replica.operating import ask_node

    try:
        told = ask_node(place, folder, ask="logs")
    except RtmwError:
        return False
    return bool(told["node"] == node)


def _data(folder: Path, path: Path) -> Check:
    """Could a service keep something there?"""
    from rtmw.net.settings import place_of

    existing = next(one for one in (folder, *folder.parents) if one.exists())
    advice = ""
    if not existing.is_dir():
        advice = f"{place_of(path, 'data')}: {existing} is no folder"
    elif not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        advice = f"{place_of(path, 'data')}: this user may not write to {existing}"
    made = "" if existing == folder else ", made when the node starts"
    return Check("data", f"{folder}{made}", advice)


def _security(settings: Settings, status: NodeStatus | None, path: Path) -> Iterator[Check]:
    """The checks of security, of which a node without links has none."""
    from rtmw.cli.node_doctor import checked, keys
    from rtmw.net.security.health import KeysHealth

    own = KeysHealth().look(settings.link)
    if own:
        yield keys(own)
    yield from _meeting(settings, path)
    if settings.allow.rules:
        yield Check("rules of peers", f"{len(settings.allow.rules)}, version {settings.allow.version}")
    yield from checked(settings, path, status.links.ports if status and status.links else ())


def _meeting(settings: Settings, path: Path) -> Iterator[Check]:
    """Can any topic ever cross? A node may be there for DDS programs, or for its services alone."""
    from rtmw.net.settings import place_of

    link, is_meant = settings.link, bool(settings.on_dds or settings.serve)
    named = ", ".join(settings.on_dds)
    if link.keys and not (link.is_found or link.is_used):
        advice = f"{place_of(path, 'find', 'link')}: nothing can ever cross; name places, or take find = false away"
        yield Check("links", "none: find = false, and neither connect nor listen", "" if is_meant else advice)
    if link.keys and link.insecure:
        met = f"met over DDS in clear, for {named}" if named else "met, and nothing crosses: dds_topics names none"
        yield Check("nodes without keys", f"{met} (insecure = true)")
    if not (link.may_link or is_meant):
        advice = f"{place_of(path, 'dds_topics')}: nothing can ever cross; name topics, or give the node keys"
        yield Check("ways of topics", "none: no dds_topics, and no links", advice)


def topics_table(settings: Settings) -> Table:
    """Topics that are on the bus now, and what may become of them."""
    try:
        with look_at(settings.domain) as domain:
            names = [view.name for view in observe.topics(domain) if not is_own(view.name)]
    except DomainNotFound:
        names = []
    rows = [
        (name, _yes(settings.leaves(name)), _yes(settings.enters(name)), _way(settings, name), _rate(settings, name))
        for name in names
    ]
    return Table("Topics of the domain now", ("topic", "may leave", "may come in", "way", "rate"), rows)


def _way(settings: Settings, topic: str) -> str:
    return "DDS, in clear" if settings.is_on_dds(topic) else "link only"


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _rate(settings: Settings, topic: str) -> str | None:
    rate = settings.rate_of(topic)
    return f"{size(rate)}/s" if rate else None
