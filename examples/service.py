"""A long request with feedback, and its cancellation, from one host to another: what ROS calls an action.

    python examples/service.py [--domains 41 42 --dds-domain 43]

Two domains of this machine stand for two hosts, each with a node. An arm is served in one, and moved from the other.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import rtmw

PATIENCE = 30.0


@dataclass
class Goal:
    degrees: int
    pause: float
    """Seconds a degree."""


@dataclass
class Step:
    degree: int


stopped = threading.Event()


def move(goal: Goal) -> Iterator[Step]:
    """Each value is feedback, the last one the result."""
    degree = 0
    try:
        for degree in range(1, goal.degrees + 1):
            time.sleep(goal.pause)
            yield Step(degree)
    except GeneratorExit:  # the caller has left, has died, or waits no more
        print("The arm stops before its goal.", flush=True)
        stopped.set()
        raise


def node(stack: ExitStack, domain: int, dds_domain: int) -> None:
    """`rtmw node`, until the end of the stack."""
    command = [sys.executable, "-m", "rtmw", "node", "--domain", str(domain), "--dds-domain", str(dds_domain)]
    process = stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
    stack.callback(process.terminate)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--domains", nargs=2, type=int, default=[41, 42])
    parser.add_argument("--dds-domain", type=int, default=43)
    arguments = parser.parse_args()
    here, there = arguments.domains
    with ExitStack() as stack:
        for domain in (here, there):
            stack.callback(rtmw.Domain.unlink, domain)
            rtmw.Domain(domain, pool="8M")
            node(stack, domain, arguments.dds_domain)
        with (
            rtmw.Service("arm/move", move, request=Goal, reply=Step, domain=there),
            rtmw.Client("arm/move", request=Goal, reply=Step, domain=here) as client,
        ):
            if not client.wait(timeout=PATIENCE):
                sys.exit("No server was found: is another program in these domains?")
            for step in client.stream(Goal(3, 0.01), timeout=PATIENCE):
                print(f"The arm is at {step.degree} degrees.")
            print("The last one:", client.call(Goal(2, 0.01), timeout=PATIENCE))
            for step in client.stream(Goal(1000, 0.01)):
                if step.degree == 2:
                    break  # cancels the move
            stopped.wait(PATIENCE)


main()
