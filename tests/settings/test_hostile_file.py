"""Settings files that no editor writes: each is answered in words, with the file."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import pytest

from rtmw.cli import main
from rtmw.net.settings import SettingsError, make_settings


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("max_rate = 1" + "0" * 400, "max_rate cannot be used"),
        ("max_rate = 1" + "0" * 5000, "not TOML"),
        ('max_rate = "' + "9" * 400 + 'T"', "max_rate cannot be used"),
        ("domain = " + "[" * 3000 + "]" * 3000, "too deep"),
        ("a = " + "{a=" * 3000 + "1" + "}" * 3000, "too deep"),
        ('[link]\nlisten = ["127.0.0.1:27198"]\nkeys = "\\u0000"', "without a NUL"),
        ('peers = ["a\\u0000b"]', "without a NUL"),
        ('data = "\\u0000"', "without a NUL"),
        ("\0", "not TOML"),
    ],
)
# Proves G105.
def test_a_settings_file_is_answered_in_words(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "node.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Exception, match=told) as refusal:
        make_settings(path, {})
    assert str(path) in str(refusal.value)
    assert main(["node", "check", str(path)]) != 0
    assert told in " ".join(capsys.readouterr().err.split())


def test_settings_as_they_are_written_are_read(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text('max_rate = "10M"')
    assert make_settings(path, {}).max_rate == 10 << 20
    path.write_text("max_rate = 0.5")
    with pytest.raises(SettingsError):
        make_settings(path, {})


# Proves G106.
def test_ten_times_the_rules_take_about_ten_times_as_long(tmp_path: Path) -> None:
    def processor_time(rules: int) -> float:
        path = tmp_path / f"{rules}.toml"
        path.write_text("".join(f'[[allow]]\npeer = "rtmw://plant/n{n}"\npublish = ["t{n}/*"]\n' for n in range(rules)))
        gc.disable()  # it would pass over all that other tests have left
        try:
            begun = time.process_time()
            assert len(make_settings(path, {}).allow.rules) == rules
            return time.process_time() - begun
        finally:
            gc.enable()

    processor_time(10)  # imports, and caches of patterns
    assert processor_time(5000) < 40 * min(processor_time(500) for _ in range(3))
