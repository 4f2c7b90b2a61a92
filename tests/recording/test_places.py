"""Places that PyArrow, or this host, cannot reach at all: what is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from rtmw.cli import main
from rtmw.errors import RemoteFailed
from rtmw.recording import Recording
from rtmw.recording.places import place, said


@pytest.mark.skipif("HADOOP_HOME" in os.environ or "ARROW_LIBHDFS_DIR" in os.environ, reason="Hadoop is here")
def test_hdfs_without_hadoop_says_what_it_needs() -> None:
    with pytest.raises(RemoteFailed, match=r"hdfs:// needs Hadoop on this host: libhdfs\.so \(ARROW_LIBHDFS_DIR"):
        Recording("hdfs://127.0.0.1:1/run_0.mcap")


@pytest.mark.parametrize(
    "words", ["Got GCS URI but Arrow compiled without GCS support", "Unrecognized filesystem type in URI: gs://a"]
)
def test_a_pyarrow_without_a_file_system_is_named(words: str) -> None:
    """Such a PyArrow is not at hand: these are its errors."""
    for kind in (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        with pytest.raises(RemoteFailed, match="this PyArrow was built without that"), said(Path("gs://a")):
            raise kind(words)


@pytest.mark.parametrize("text", ["https://plant/run_0.mcap", "az://plant/run_0.mcap", "ftp://plant"])
def test_a_uri_of_another_kind_is_refused_with_those_that_are_known(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(FileNotFoundError, match="is no place for recordings: these are paths, file://, s3://, gs://"):
        place(text)
    for command in (["recording", "info", text], ["report", text], ["replay", text]):
        assert main(command) == 1
        assert f"{text} is no place for recordings" in capsys.readouterr().err


def test_a_path_may_have_a_colon(tmp_path: Path) -> None:
    assert place("a:b/c") == Path("a:b/c")
    assert place(tmp_path / "s3:") == tmp_path / "s3:"
