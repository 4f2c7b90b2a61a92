"""What tests of requests share: types, handlers, and a server in another process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import rtmw
from tests.child import Child, Spawn


@dataclass
class Goal:
    count: int
    pause: float = 0.0


@dataclass
class Step:
    number: int


def double(goal: Goal) -> Step:
    return Step(2 * goal.count)


def steps(goal: Goal) -> Iterator[Step]:
    for number in range(goal.count):
        time.sleep(goal.pause)
        yield Step(number)


def service(handler: Callable[[Goal], Any], name: str = "arm", **options: Any) -> rtmw.Service[Goal, Step]:
    return rtmw.Service(name, handler, request=Goal, reply=Step, **options)


def client(name: str = "arm", **options: Any) -> rtmw.Client[Goal, Step]:
    return rtmw.Client(name, request=Goal, reply=Step, **options)


SERVER = """
import time
import rtmw
from tests.requests.common import Goal, Step, service

def handler(goal):
    print("begun", flush=True)
    input()
    for number in range(goal.count):
        yield Step(number)
        print("sent", flush=True)
        input()

with service(handler):
    print("ready", flush=True)
    time.sleep(600)
"""
"""A server whose handler says what it does, and waits for a line before each step."""


def server(spawn: Spawn, source: str = SERVER) -> Child:
    child = spawn(source)
    assert child.line() == "ready"
    return child
