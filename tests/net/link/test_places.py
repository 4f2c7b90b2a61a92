"""Places of [link]: Unix sockets and their files."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import closing
from pathlib import Path

import pytest

from rtmw.net.link.places import Listening
from rtmw.net.process import NodeError


def reaches(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.connect(str(path))
        except OSError:
            return False
        return True


def test_everybody_who_reaches_the_file_may_connect_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with closing(Listening(f"unix:{tmp_path}/a")):
            assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666
            assert reaches(tmp_path / "a")
    finally:
        os.umask(before)
    assert not (tmp_path / "a").exists()


def test_a_socket_whose_owner_is_gone_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(tmp_path / "a"))
        gone.listen()
    with closing(Listening(f"unix:{tmp_path}/a")):
        assert reaches(tmp_path / "a")


def test_a_socket_at_which_another_program_listens_stays_its_own_also_while_its_queue_is_full(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "a"))
        other.listen(0)
        for _ in range(3):
            with pytest.raises(NodeError, match="another program listens there"):
                Listening(f"unix:{tmp_path}/a")
        assert (tmp_path / "a").exists()


def test_of_two_nodes_one_listens(tmp_path: Path) -> None:
    with closing(Listening(f"unix:{tmp_path}/a")):
        with pytest.raises(NodeError, match="another program listens there"):
            Listening(f"unix:{tmp_path}/a")
        (tmp_path / "a").unlink()
        with pytest.raises(NodeError, match="another node begins to listen there"):
            Listening(f"unix:{tmp_path}/a")
    with closing(Listening(f"unix:{tmp_path}/a")):
        assert reaches(tmp_path / "a")


def test_a_file_that_was_replaced_meanwhile_is_left_alone(tmp_path: Path) -> None:
    listening = Listening(f"unix:{tmp_path}/a")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "b"))
        os.rename(tmp_path / "b", tmp_path / "a")
        listening.close()
        assert (tmp_path / "a").exists()


def test_what_is_in_the_way_is_said_and_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NodeError, match="a file that is no socket has this name"):
        Listening(f"unix:{tmp_path}/file")
    assert (tmp_path / "file").read_text() == "mine"
    with pytest.raises(NodeError, match=r"\[link\] listen: unix:.*/none/a cannot be had: there is no folder .*/none"):
        Listening(f"unix:{tmp_path}/none/a")
