"""`rtmw completion bash|zsh`: a script that completes commands, options, choices, files and topics."""

from __future__ import annotations

import argparse
from typing import Any, Final, cast

from rtmw.optional import needed

_OF_TOPICS: Final = ("topic", "topics")
_OF_FILES: Final = ("FILE", "FOLDER", "PATH", "LOG", "REQUEST")
_TOPICS: Final = {"bash": "_rtmw_topics", "zsh": "_rtmw_topics"}
_PREAMBLES: Final = {
    # A name is never expanded by the shell, as `compgen -W` would: any program of the domain may have chosen it.
    "bash": """
_rtmw_topics() {
  local name domain=() at
  for ((at = 1; at < COMP_CWORD; at++)); do
    [[ ${COMP_WORDS[at]} == --domain ]] && domain=(--domain "${COMP_WORDS[at + 1]}")
  done
  while IFS= read -r name; do
    printf -v name %q "$name"
    [[ $name == "$1"* ]] && printf '%s\\n' "$name"
  done < <(rtmw topic list --names "${domain[@]}" 2>/dev/null)
}
""",
    "zsh": """
_rtmw_topics() {
  local -a names
  names=(${(f)"$(rtmw topic list --names ${opt_args[--domain]:+--domain=${opt_args[--domain]}} 2>/dev/null)"})
  compadd -a names
}
""",
}


def add_command(commands: Any) -> None:
    """The command and its argument."""
    help = "print a script that completes commands, options and topics in a shell"
    parser: argparse.ArgumentParser = commands.add_parser("completion", help=help, description=_DESCRIPTION)
    parser.add_argument("shell", choices=tuple(_PREAMBLES))
    parser.set_defaults(run=_print)


_DESCRIPTION: Final = 'Print a script that completes commands, options and topics. Use: eval "$(rtmw completion bash)"'


def _print(arguments: argparse.Namespace) -> int:
    from rtmw.cli.arguments import build_parser  # which imports this module

    shtab = needed("shtab", "shtab", "completion", "`rtmw completion`")
    parser = build_parser()
    _mark(parser, shtab.FILE)
    script: str = shtab.complete(parser, arguments.shell, preamble=_PREAMBLES[arguments.shell])
    # Of arguments that may be many, shtab has zsh complete the first one only.
    print(script.replace('"(*)::', '"*:').replace('"(*):', '"*:'))
    return 0


def _mark(parser: argparse.ArgumentParser, files: object) -> None:
    """Say how arguments without choices are completed, of this command and of those behind it."""
    for action in parser._actions:
        if action.nargs == argparse.PARSER:
            for command in cast("dict[str, argparse.ArgumentParser]", action.choices).values():
                _mark(command, files)
        elif not action.option_strings and action.dest in _OF_TOPICS:
            vars(action)["complete"] = _TOPICS
        elif action.metavar in _OF_FILES:
            vars(action)["complete"] = files
