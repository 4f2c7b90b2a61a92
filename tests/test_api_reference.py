"""docs/api.md says what the docstrings say."""

from __future__ import annotations

from tests.api_reference import PAGE, page


def test_the_api_reference_is_what_the_docstrings_say() -> None:
    assert PAGE.read_text() == page(), "write it again: python -m tests.api_reference"
