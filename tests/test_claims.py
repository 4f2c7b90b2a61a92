"""Names that one process of the host has at a time."""

from __future__ import annotations

import os
import subprocess
import threading
import time

import pytest

from rtmw.locks import STARTING_S, claimed

NAME = f"rtmw-test-claims-{os.getpid()}"


def test_a_name_is_of_one_holder_until_its_socket_is_closed() -> None:
    held = claimed(NAME)
    assert held is not None
    with held:
        assert claimed(NAME) is None
    again = claimed(NAME)
    assert again is not None
    again.close()


def test_who_waits_gets_a_name_that_is_given_back_meanwhile() -> None:
    held = claimed(NAME)
    assert held is not None
    timer = threading.Timer(0.05, held.close)
    timer.start()
    again = claimed(NAME, patience=20.0)
    timer.join()
    assert again is not None
    again.close()


def test_a_name_that_was_given_back_is_free_while_the_process_starts_programs() -> None:
    """Between fork and exec such a program has copies of its parent's sockets."""
    stopping = threading.Event()

    def start_programs() -> None:
        while not stopping.is_set():
            subprocess.run(["true"], check=True)

    threads = [threading.Thread(target=start_programs) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            held = claimed(NAME, patience=20 * STARTING_S)
            assert held is not None
            held.close()
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


def test_a_child_of_fork_leaves_the_names_to_its_parent() -> None:
    stopping, left = threading.Event(), False

    def claim_and_give_back() -> None:
        while not stopping.is_set():
            if (held := claimed(NAME)) is not None:
                held.close()

    thread = threading.Thread(target=claim_and_give_back)
    thread.start()
    children: list[int] = []
    inside, outside = os.pipe()
    try:
        for _ in range(20):
            if not (pid := os.fork()):
                os.close(outside)
                os.read(inside, 1)  # until the test has looked
                os._exit(0)
            children.append(pid)
        stopping.set()
        thread.join()
        held = claimed(NAME, patience=10.0)
        left = held is None
        if held is not None:
            held.close()
    finally:
        stopping.set()
        os.close(outside)
        os.close(inside)
        for pid in children:
            os.waitpid(pid, 0)
    assert not left


def test_another_error_is_not_taken_for_a_name_that_is_held() -> None:
    with pytest.raises(OSError, match="too long"):
        claimed("rtmw-" + "x" * 200)
