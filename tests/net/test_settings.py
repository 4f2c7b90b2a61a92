"""Settings of a node: from a file, from the command line, and what is said when they cannot be used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rtmw.errors import RtmwError
from rtmw.net.settings import NODE, Settings, SettingsError, check_reload, make_settings
from rtmw.settings import SettingsFile


def written(folder: Path, text: str) -> Path:
    path = folder / "node.toml"
    path.write_text(text)
    return path


def test_without_settings_the_node_stays_on_loopback() -> None:
    assert make_settings(None, {}).wire_interfaces == ("lo",)


def test_peers_without_an_interface_leave_its_choice_to_the_routes() -> None:
    assert make_settings(None, {"peers": ["192.0.2.1"]}).wire_interfaces == ()


def test_a_file_has_the_same_keys_as_the_settings(tmp_path: Path) -> None:
    path = written(tmp_path, 'domain = 3\ndds_domain = 4\ninterface = "lo"\ntopics_out = ["a/*"]\nmax_rate = "2M"\n')
    settings = make_settings(path, {})
    assert settings == Settings(domain=3, dds_domain=4, interface="lo", topics_out=("a/*",), max_rate=2 << 20)


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "domain = 3\nros2 = true\n")
    assert make_settings(path, {"domain": 5, "ros2": None}) == Settings(domain=5, ros2=True)


def test_the_folder_of_data_begins_at_the_folder_of_the_file_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    path = written(tmp_path, 'serve = ["transfer"]\ndata = "kept"\n')
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert make_settings(path, {}).data == tmp_path / "kept"
    assert make_settings(path, {"data": "mine"}).data == tmp_path / "elsewhere" / "mine"
    assert make_settings(written(tmp_path, 'data = "/srv/kept"\n'), {}).data == Path("/srv/kept")


def test_the_dds_domain_is_the_domain_unless_said() -> None:
    assert (Settings(domain=7).wire_domain, Settings(domain=7, dds_domain=0).wire_domain) == (7, 0)


@pytest.mark.parametrize(
    ("topic", "leaves"), [("river/a", True), ("river/b/c", True), ("airport", False), ("rtmw/node", False)]
)
def test_patterns_say_which_topics_leave(topic: str, leaves: bool) -> None:
    assert Settings(topics_out=("river/*", "rtmw/*")).leaves(topic) is leaves


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("domain = 0\ndomian = 3\n", 2, "there is no setting domian"),
        ("\n\ndomain = 300\n", 3, "domains have numbers from 0 to 232"),
        ('domain = "0"\n', 1, "domains have numbers"),
        ("lease = 5\n\n[node]\ndomain = 0\n", 3, "[node] is a table; settings stand at the top"),
        ('pool = "1"\n', 1, "a pool of '1' is not possible"),
        ("pool = true\n", 1, "is not a size"),
        ('interface = "nowhere0"\n', 1, "there is no interface 'nowhere0'"),
        ("peers = 5\n", 1, "a list of texts"),
        ("topics_in = [1]\n", 1, "it must be a text"),
        ('max_rate = "fast"\n', 1, "bytes a second"),
        ('topic_rates = ["a"]\n', 1, "PATTERN=RATE"),
        ('peer_rates = ["10.0.0.7"]\n', 1, "no rate of a host; it must be PATTERN=RATE"),
        ("lease = 0\n", 1, "from 0.1 to 3600 seconds"),
        ("ros2 = 1\n", 1, "true or false"),
        ("metrics_port = 70000\n", 1, "from 0 to 65535"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_with_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        make_settings(written(tmp_path, text), {})
    assert f"node.toml, line {line}: " in str(refusal.value)
    assert words in str(refusal.value)


def test_a_file_that_is_no_toml_is_named_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"node\.toml: not TOML: .*line 2"):
        make_settings(written(tmp_path, "domain = 0\ndomain 3\n"), {})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nothing\.toml: No such file"):
        make_settings(tmp_path / "nothing.toml", {})


def test_a_bad_argument_is_named() -> None:
    with pytest.raises(SettingsError, match=r"--max-rate: max_rate cannot be used: it is '0'"):
        make_settings(None, {"max_rate": "0"})


def test_a_default_in_the_documents_is_what_holds_where_nothing_is_said() -> None:
    said = {"pool": "64M", "lease": 10, "handover": 5, "ros2": False, "metrics_address": "127.0.0.1"}
    for name, default in said.items():
        assert NODE.by_name[name].default == str(default).lower().replace("64m", "64M")
        assert NODE.by_name[name].check(default) == getattr(Settings(), name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ["a", "b"]),
        ('dds_topics = ["b"]', ["b"]),
        ('[link]\nlisten = "127.0.0.1:7447"', ["a", "b"]),
        ('[link]\nkeys = "k"', []),
        ('[link]\nkeys = "k"\ninsecure = true', []),
        ('dds_topics = ["a"]\n[link]\nkeys = "k"', ["a"]),
    ],
)
def test_dds_carries_all_topics_and_those_of_a_node_with_keys_that_are_named(
    tmp_path: Path, text: str, shown: list[str]
) -> None:
    settings = make_settings(written(tmp_path, text), {})
    assert [topic for topic in ("a", "b") if settings.is_on_dds(topic)] == shown


EXAMPLE = Path(__file__).parents[2] / "examples" / "node.toml"


def test_the_example_can_be_used() -> None:
    assert make_settings(EXAMPLE, {}).topics_out == ("river/*", "airport/*")


def test_the_example_shows_every_setting_with_a_value_that_can_be_used(tmp_path: Path) -> None:
    text = re.sub(r"^# (?=[a-z0-9_]+ = )", "", EXAMPLE.read_text(), flags=re.MULTILINE)
    shown = written(tmp_path, text.replace('"eth0"', '"lo"'))
    assert set(re.findall(r"^(\w+) = ", text, re.MULTILINE)) == {*NODE.by_name}
    assert make_settings(shown, {}).peers == ("10.0.0.7", "10.0.0.8")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('listen = "hub:7447"', "line 2: listen cannot be used: 'hub:7447' is not ADDRESS:PORT of this host"),
        ('connect = "hub:7447"', "line 2: connect cannot be used: it is 'hub:7447'; it must be a list"),
        ('connect = ["hub"]', "line 2: connect cannot be used: 'hub' is not HOST:PORT"),
        ('connect = ["hub:7447"]', "line 2: connect: hub:7447 is not on loopback, and without keys"),
        ('listen = "0.0.0.0:7447"', "line 2: listen: 0.0.0.0:7447 is not on loopback, and without keys"),
        ('insecure = "yes"', "line 2: insecure cannot be used: it is 'yes'; it must be true or false"),
        ("lease = 0", "line 2: lease cannot be used: it is 0; it must be from 0.1 to 3600 seconds"),
        ('max_rate = "fast"', "line 2: max_rate cannot be used: it is 'fast'; it must be bytes a second"),
        ('openssl = "lib/libssl.so"', "line 2: openssl cannot be used: it is 'lib/libssl.so'; it must be the path"),
        ('conect = ["hub:1"]', "line 2: [link] has no conect"),
    ],
)
def test_a_setting_of_links_that_cannot_be_used_is_named_with_its_line(tmp_path: Path, lines: str, words: str) -> None:
    with pytest.raises(RtmwError, match=re.escape(words)):
        make_settings(written(tmp_path, f"[link]\n{lines}\n"), {})


@pytest.mark.parametrize(
    "lines",
    [
        'connect = ["127.0.0.1:7447", "[::1]:7447", "localhost:7447"]\nlisten = "[::1]:0"',
        'connect = ["hub:7447"]\nlisten = "0.0.0.0:7447"\ninsecure = true',
        'connect = ["hub:7447"]\nlisten = "0.0.0.0:7447"\nkeys = "keys"',
    ],
)
def test_without_keys_links_stay_on_loopback_unless_the_settings_say_so_in_words(tmp_path: Path, lines: str) -> None:
    link = make_settings(written(tmp_path, f"[link]\n{lines}\nlease = 2\n"), {}).link
    assert (link.is_used, link.lease) == (True, 2.0)


RULE = '[[allow]]\npeer = "*"\npublish = ["*"]\n'
OPEN = "[link]\ninsecure = true\n"
PROTECTED = f'[link]\nkeys = "k"\nlisten = "0.0.0.0:7447"\n{RULE}'
PLAIN = f'[link]\nlisten = "127.0.0.1:7447"\n{RULE}'
SERVED = 'serve = ["transfer"]\ndata = "d"\n'


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (PROTECTED, "", "it is empty"),
        (PROTECTED, "# nothing\n", "it is empty"),
        ('topics_out = ["a/*"]\n', "", "it is empty"),
        (PROTECTED, "lease = 5\n", "no keys under [link] and no [[allow]]"),
        (PROTECTED, PLAIN, "no keys under [link]"),
        (PROTECTED, '[link]\nkeys = "k"\n', "no [[allow]]"),
        (PLAIN, RULE, "no [link] with connect or listen"),
        (
            f'{SERVED}[transfer]\nkeys = "k"\nlisten = "0.0.0.0:7447"\n',
            f'{SERVED}[transfer]\nlisten = "127.0.0.1:7447"\n',
            "no keys under [transfer]",
        ),
    ],
)
# Proves G231.
def test_a_reload_does_not_take_protection_away_unless_the_file_says_that_this_is_meant(
    tmp_path: Path, before: str, after: str, lost: str
) -> None:
    held = make_settings(written(tmp_path, before), {})
    file = SettingsFile.read(written(tmp_path, after))
    with pytest.raises(SettingsError, match=re.escape(lost)) as refusal:
        check_reload(file, held, make_settings(file, {}))
    assert "node.toml: " in str(refusal.value)
    assert "insecure = true" in str(refusal.value)
    said = after.replace("[link]\n", OPEN) if "[link]" in after else after + OPEN
    meant = SettingsFile.read(written(tmp_path, said))
    check_reload(meant, held, make_settings(meant, {}))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("", PROTECTED),
        (PLAIN, PROTECTED),
        (PROTECTED, PROTECTED.replace("7447", "7448")),
        (PROTECTED, PROTECTED.replace(' "*"', ' "rtmw://plant/*"')),
        ('topics_out = ["a/*"]\n', "lease = 5\n"),
        (f'{SERVED}[transfer]\nkeys = "k"\nlisten = "0.0.0.0:7447"\n', SERVED),
    ],
)
def test_a_reload_that_takes_no_protection_away_is_taken_in(tmp_path: Path, before: str, after: str) -> None:
    held = make_settings(written(tmp_path, before), {})
    file = SettingsFile.read(written(tmp_path, after))
    check_reload(file, held, make_settings(file, {}))
