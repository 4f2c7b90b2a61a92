"""The arguments of `rtmw record`."""

from __future__ import annotations

import argparse

from rtmw.cli.quantities import count, seconds, size


def run(arguments: argparse.Namespace) -> int:
    """Record; see rtmw/cli/record.py."""
    from rtmw.cli.record import record  # numpy and more are only needed here

    return record(arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="names and patterns; of patterns, new topics too")
    parser.add_argument("--all", action="store_true", help="every topic")
    parser.add_argument("--exclude", nargs="+", default=(), metavar="PATTERN", help="topics not to record")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where the files go; made if need be")
    parser.add_argument("--append", action="store_true", help="the folder may hold recordings already")
    parser.add_argument("--compression", metavar="NAME", help="lz4 (default), zstd or none")
    parser.add_argument("--split-size", type=size, dest="split_bytes", metavar="SIZE", help="next file, as 1G")
    parser.add_argument("--split-every", type=seconds, metavar="TIME", help="next file after so long")
    parser.add_argument("--keep", type=count, metavar="N", help="remove the oldest of more than N files")
    parser.add_argument("--snapshot", type=seconds, metavar="TIME", help="keep so long in memory until SIGUSR1")
    parser.add_argument("--reliable", action="store_true", help="RELIABLE publishers wait for the recorder")
    parser.add_argument("--buffer", type=size, dest="buffer_bytes", metavar="SIZE", help="memory (default 256M)")
    parser.add_argument("--chunk", type=size, dest="chunk_bytes", metavar="SIZE", help="of chunks (default 1M)")
    parser.add_argument("--sync-every", type=seconds, metavar="TIME", help="to the disk itself (default 5)")
    parser.add_argument("--ros2", action="store_true", help="schemas and QoS for the tools of ROS 2")
    parser.add_argument("--upload", metavar="URI", help="finished files go there, too: s3://bucket/prefix")
    parser.add_argument("--upload-remove", action="store_true", help="and are removed here when they are there")
    parser.add_argument("--upload-patience", type=seconds, metavar="TIME", help="wait so long at the end (default 60)")
    parser.add_argument("--for", type=seconds, dest="seconds", metavar="TIME", help="how long (until SIGINT)")
    parser.add_argument("--wait", action="store_true", help="wait for a domain that is not there yet")
    parser.add_argument("--quiet", action="store_true", help="say nothing but errors")
