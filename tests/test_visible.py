"""Text of others as people may see it: all of it is there, and nothing of it acts."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from rtmw.text.visible import label, markup, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pump/speed", "pump/speed"),
        ("Füllstand 水位 €/m³ → ½", "Füllstand 水位 €/m³ → ½"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\n\t\r\x7f", r"a\n\t\r\x7f"),
        ("\x9b2J", r"\x9b2J"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("a\u3164\ufe0f\U000e0100", r"a\u3164\ufe0f\U000e0100"),
        ("\udc80", r"\udc80"),
        (r"C:\new", r"C:\new"),
    ],
)
def test_text_is_shown_as_it_is_but_for_what_acts_or_hides(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(shown) == shown


def test_no_control_format_or_separator_of_unicode_passes() -> None:
    for letter in map(chr, range(sys.maxunicode + 1)):
        if unicodedata.category(letter) in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
            assert visible(letter).isascii(), f"U+{ord(letter):04X}"


def test_markup_and_formulas_do_not_begin() -> None:
    assert markup("<b>\u202e\"&'") == "&lt;b&gt;\\u202e&quot;&amp;&#x27;"
    assert label("$x^2$\n") == r"\$x^2\$\n"
