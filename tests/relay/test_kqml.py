"""KQML: what the drafts show is read, what is written is read again, and all else is refused at its place (R12)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmw.relay.kqml import BROKEN, DEEPEST, KqmlError, Performative, parse, performative_of

OF_THE_DRAFT = """
(ask-one
  :sender     joe
  :content    (PRICE IBM ?price)
  :receiver   stock-server
  :reply-with ibm-stock
  :language   LPROLOG
  :ontology   NYSE-TICKS)
"""


# Proves R12.
def test_the_example_of_the_draft_is_read() -> None:
    found = parse(OF_THE_DRAFT)
    assert found.name == "ask-one"
    assert found.parameters == {
        "sender": "joe", "content": "(PRICE IBM ?price)", "receiver": "stock-server",
        "reply-with": "ibm-stock", "language": "LPROLOG", "ontology": "NYSE-TICKS",
    }  # fmt: skip
    assert found.get("in-reply-to", "none") == "none"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('"a \\"gate\\" \\\\ 12"', 'a "gate" \\ 12'),
        ('#5"a"b)(', 'a"b)('),
        ('#0"', ""),
        ('(a (b) "c)" #2"((d)', '(a (b) "c)" #2"((d)'),
        ("'(a b)", "'(a b)"),
        ("`(a ,b)", "`(a ,b)"),
        ("航班", "航班"),
        ("(gate :x 1)", "(gate :x 1)"),
    ],
)
def test_a_value_is_a_word_a_text_or_a_list(written: str, value: str) -> None:
    assert parse(f"(tell :content {written} :to EWR)").parameters == {"content": value, "to": "EWR"}


names = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)


@given(names, st.dictionaries(names, st.text(max_size=40), max_size=5))
def test_what_is_written_is_read_again(name: str, parameters: dict[str, str]) -> None:
    sent = Performative(name, parameters)
    assert parse(str(sent)) == sent


@given(st.text(alphabet="()\"'`,#\\: \n:tela1", max_size=60))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    try:
        found = parse(text)
    except KqmlError:
        return
    assert parse(str(found)) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the text ends where '\\(' is expected"),
        ("tell", "at character 0: '\\(' is expected, and 'tell' stands there"),
        ("()", "a performative is expected"),
        ("(tell content x)", "a parameter such as :content"),
        ("(tell :content)", "a value is expected"),
        ("(tell :content :to x)", "a value is expected"),
        ("(tell :content (a b)", "the text ends where a parameter such as :content"),
        ('(tell :content "a', "the text ends where '\"' is expected"),
        ('(tell :content "a\\', "the text ends where '\"' is expected"),
        ('(tell :content #9"a")', "text of 9 characters is expected"),
        ("(tell :content #x)", "a length"),
        ("(tell) more", "the end of the text is expected"),
        ("(tell :content " + "(" * (DEEPEST + 1), f"more than {DEEPEST} lists"),
        ("(1tell)", "is no performative"),
    ],
)
def test_a_body_that_is_none_is_refused_at_its_place(text: str, words: str) -> None:
    with pytest.raises(KqmlError, match=words):
        parse(text)


def test_the_performative_of_a_body_is_known_and_other_bodies_have_none() -> None:
    assert performative_of(" (TELL :to x)") == "tell"
    assert performative_of("(not closed") == "not"
    assert performative_of("(") == performative_of("\ufeff(tell)") == BROKEN
    assert performative_of("CA981 gate 12") is None


def test_bytes_are_no_text() -> None:
    with pytest.raises(KqmlError, match="it is of bytes, and KQML is text: decode it"):
        parse(b"(tell)")  # type: ignore[arg-type]
