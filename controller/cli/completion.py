"""Print a script that completes commands and options in a shell: source <(strandline completion bash)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from controller.terminal import say

HELP = "print a script for completion in bash or zsh"

FUNCTION = """\
_strandline() {{
  local words
  case "$COMP_CWORD:${{COMP_WORDS[1]}}" in
    1:*) words="{commands}" ;;
{cases}
    *) words="" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _strandline strandline"""
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh"), help="for which shell")


def run(options: argparse.Namespace) -> int:
    from controller.cli import make_parser

    script = bash(make_parser())
    say(ZSH + script if options.shell == "zsh" else script)
    return 0


def bash(parser: argparse.ArgumentParser) -> str:
    """The script for bash, with what the parser takes."""
    commands = {name: sub for each in _nested(parser) for name, sub in each.choices.items()}
    cases = [f'    *:{name}) words="{" ".join(_words(sub))}" ;;' for name, sub in commands.items()]
    return FUNCTION.format(commands=" ".join(commands), cases="\n".join(cases))


def _words(parser: argparse.ArgumentParser) -> list[str]:
    """The options of a command and of those within it, and the words that stand for themselves."""
    found = [word for action in parser._actions for word in action.option_strings if word.startswith("--")]
    found += [str(word) for action in parser._actions for word in action.choices or ()]
    for each in _nested(parser):
        for sub in each.choices.values():
            found += _words(sub)
    return list(dict.fromkeys(found))


def _nested(parser: argparse.ArgumentParser) -> Iterator[argparse._SubParsersAction[argparse.ArgumentParser]]:
    """argparse keeps what it was told where only names with an underscore reach."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield action
