"""`rtmw completion bash|zsh`: a script that completes commands, options, choices, files, topics and services."""

from __future__ import annotations

import argparse
from typing import Final

from rtmw.cli.parsing import commands_of, runs
from rtmw.optional import needed

_OF_TOPICS: Final = ("topic", "topics")
_OF_SERVICES: Final = ("called",)
_OF_FILES: Final = ("FILE", "FOLDER", "PATH", "LOG", "REQUEST")
_TOPICS: Final = {"bash": "_rtmw_topics", "zsh": "_rtmw_topics"}
_SERVICES: Final = {"bash": "_rtmw_services", "zsh": "_rtmw_services"}
_PREAMBLES: Final = {
    # A name is never expanded by the shell, as `compgen -W` would: any program of the domain may have chosen it.
    "bash": """
_rtmw_topics() { _rtmw_names topic "$1"; }
_rtmw_services() { _rtmw_names service "$1"; }
_rtmw_names() {
  local name domain=() at
  for ((at = 1; at < COMP_CWORD; at++)); do
    [[ ${COMP_WORDS[at]} == --domain ]] && domain=(--domain "${COMP_WORDS[at + 1]}")
  done
  while IFS= read -r name; do
    printf -v name %q "$name"
    [[ $name == "$2"* ]] && printf '%s\\n' "$name"
  done < <(rtmw "$1" list --names "${domain[@]}" 2>/dev/null)
}
""",
    "zsh": """
_rtmw_topics() { _rtmw_names topic }
_rtmw_services() { _rtmw_names service }
_rtmw_names() {
  local -a names
  names=(${(f)"$(rtmw $1 list --names ${opt_args[--domain]:+--domain=${opt_args[--domain]}} 2>/dev/null)"})
  compadd -a names
}
""",
}


def add_completion(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    runs(parser, _print_script, domain=False, json=False)
    parser.add_argument("shell", choices=tuple(_PREAMBLES))


_DESCRIPTION: Final = (
    "Print a script that completes commands, options, topics and services. For bash, keep it as "
    "~/.local/share/bash-completion/completions/rtmw; for zsh, as _rtmw in a folder of fpath."
)


def _print_script(arguments: argparse.Namespace) -> int:
    from rtmw.cli.command import build_parser  # which begins with the table that names this module

    shtab = needed("shtab", "shtab", "completion", "`rtmw completion`")
    parser = build_parser()
    _mark(parser, shtab.FILE)
    script: str = shtab.complete(parser, arguments.shell, preamble=_PREAMBLES[arguments.shell])
    # Of arguments that may be many, shtab has zsh complete the first one only.
    print(script.replace('"(*)::', '"*:').replace('"(*):', '"*:'))
    return 0


def _mark(parser: argparse.ArgumentParser, files: object) -> None:
    """Say how arguments without choices are completed, of this command and of those behind it."""
    for command in commands_of(parser).values():
        _mark(command, files)
    for action in parser._actions:
        if not action.option_strings and action.dest in _OF_TOPICS:
            vars(action)["complete"] = _TOPICS
        elif not action.option_strings and action.dest in _OF_SERVICES:
            vars(action)["complete"] = _SERVICES
        elif action.metavar in _OF_FILES:
            vars(action)["complete"] = files
