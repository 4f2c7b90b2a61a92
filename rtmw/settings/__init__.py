"""The settings of a daemon: on the command line, in a TOML file, or both; the command line wins.

    declaration   the settings, each with its type, unit, default, and whether a reload takes it in
    file          a TOML file, and on which line it says what (toml_lines)
    values        checks that several daemons need

A daemon has a frozen dataclass of its settings and a Declaration with the same names. The declaration refuses what
cannot be used with a SettingsError that names file, line and key. The options of its command and the table of its
documentation are made from the declaration (rtmw/cli/parsing.py, `python -m tests.settings_tables`).
"""

from __future__ import annotations

from rtmw.settings.declaration import Changes, Declaration, Setting, option_of
from rtmw.settings.file import SettingsError, SettingsFile, in_short

__all__ = ["Changes", "Declaration", "Setting", "SettingsError", "SettingsFile", "in_short", "option_of"]
