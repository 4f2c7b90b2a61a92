"""The tables of docs/formats/log-format.md."""

from __future__ import annotations

from pathlib import Path

from tests.page import Page, Row

__all__ = ["PAGE", "Row", "field", "table"]

_LOG_FORMAT = Page(Path(__file__).parents[2] / "docs" / "formats" / "log-format.md")
PAGE, table, field = _LOG_FORMAT.path, _LOG_FORMAT.table, _LOG_FORMAT.field
