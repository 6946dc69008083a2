"""The commands as a whole: their page, their completion, and what they need."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller import format
from controller.cli import make_parser
from controller.cli.client import suggestion
from strandline.core.aggregate import Holder

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "command-line.md"
ASKING = (
    "create",
    "streams",
    "writers",
    "marks",
    "window",
    "position",
    "index",
    "watch",
    "tail",
    "journal",
    "exclude",
    "include",
    "completion",
)

# What each command has loaded when it is done, without the standard library.
LOADED = """
import sys
from controller.cli import main
main(sys.argv[1:])
loaded = {name.split(".")[0] for name in sys.modules}
print("loaded", *sorted(loaded & {"fastapi", "numpy", "sqlalchemy", "uvicorn"}))
"""


def commands() -> dict[str, argparse.ArgumentParser]:
    (nested,) = (each for each in make_parser()._actions if isinstance(each, argparse._SubParsersAction))
    return dict(nested.choices)


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    return {word for action in parser._actions for word in action.option_strings if word.startswith("--")}


def sections() -> dict[str, str]:
    """The page's sections that are about a command or several, by command."""
    found = {}
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        for name in re.findall(r"`(\w+)`", title):
            found[name] = text
    return found


# -- the page --------------------------------------------------------------------------------------------------


def test_the_page_has_a_section_for_each_command_that_asks_a_controller() -> None:
    assert set(ASKING) <= sections().keys() <= commands().keys()


@pytest.mark.parametrize("command", ASKING)
def test_the_page_names_every_option_of_a_command_and_no_other(command: str) -> None:
    shared = {"--controller", "--token", "--token-file", "--ca-file", "--help", "--json", "--plain-times"}
    assert set(re.findall(r"--[a-z-]+", sections()[command])) - shared == options_of(commands()[command]) - shared


def test_the_page_names_what_the_commands_share() -> None:
    beginning = PAGE.read_text().partition("\n## ")[0]
    for option in ("--controller", "--token", "--token-file", "--ca-file", "--json", "--plain-times"):
        assert f"`{option}" in beginning


def test_every_command_that_the_page_shows_is_one_that_the_parser_takes() -> None:
    shown = re.findall(r"^strandline (.*)$", PAGE.read_text(), re.MULTILINE)
    assert len(shown) >= len(ASKING)
    for line in shown:
        words = re.findall(r"'([^']*)'|(\S+)", line.partition(" #")[0])
        make_parser().parse_args([quoted or plain for quoted, plain in words])


@pytest.mark.parametrize("command", ASKING)
def test_every_option_names_its_variable(command: str) -> None:
    helped = commands()[command].format_help()
    for option in options_of(commands()[command]) - {"--help"}:
        assert "STRANDLINE_" + option.removeprefix("--").upper().replace("-", "_") in helped


# -- completion ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (("strandline", "wr"), ["writers"]),
        (("strandline", "in"), ["index", "include"]),
        (("strandline", "marks", "orders", "--fo"), ["--follow"]),
        (("strandline", "window", "--po"), ["--position"]),
        (("strandline", "completion", "z"), ["zsh"]),
        (("strandline", "nothing", "--x"), []),
    ],
    ids=" ".join,
)
def test_bash_completes_commands_and_options(
    strandline: Callable[..., Any], words: tuple[str, ...], completed: list[str]
) -> None:
    script = strandline("completion", "bash").out
    asked = (
        f'{script}\nCOMP_WORDS=({" ".join(words)})\nCOMP_CWORD={len(words) - 1}\n_strandline\necho "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (completed, "")


def test_zsh_gets_the_same_behind_what_lets_it_understand_it(strandline: Callable[..., Any]) -> None:
    bash, zsh = strandline("completion", "bash").out, strandline("completion", "zsh").out
    assert zsh.endswith(bash) and "bashcompinit" in zsh.removesuffix(bash)


# -- what they need --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("streams",), ("watch", "--once"), ("completion", "bash")], ids=" ".join)
def test_a_command_that_asks_needs_nothing_of_the_server(served: Any, words: tuple[str, ...], tmp_path: Path) -> None:
    address = [] if words[0] == "completion" else ["--controller", served.url]
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *words, *address],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "loaded"


# -- words -----------------------------------------------------------------------------------------------------


def test_who_holds_time_back_is_told_in_a_sentence() -> None:
    def told(**more: Any) -> str:
        known = {"writer": "w3", "state": "active", "time": 5, "last_heard_ms_ago": 12_000, "released_in_ms": 48_000}
        return format.holding(Holder(**{**known, **more}))

    assert told() == "w3 holds, 12 s silent, let go in 48 s"
    assert told(released_in_ms=None) == "w3 holds, 12 s silent, never let go by itself"
    assert told(state="joined", time=None) == "w3 (joined) holds and has no time yet, 12 s silent, let go in 48 s"
    assert told(released_in_ms=0) == "w3 holds, 12 s silent, let go now"
    assert told(writer=None) == "too few writers have noted (min_writers)"
    assert format.holding(None) == "nobody"


def test_the_segments_of_a_position_stand_in_order() -> None:
    assert format.offsets({"10": 1, "b": 4, "2": 5, "a": 3}) == "2=5,10=1,a=3,b=4"
    assert format.offsets({str(segment): 1 for segment in range(200, 0, -1)}).startswith("1=1,2=1,3=1,")
    assert format.offsets({}) == "–"


@pytest.mark.parametrize(
    ("milliseconds", "told"),
    [
        (0, "0.0 s"),
        (9_949, "9.9 s"),
        (9_950, "10 s"),
        (119_000, "119 s"),
        (119_999, "2 min 0 s"),
        (7_199_000, "119 min 59 s"),
        (7_200_000, "2 h 0 min"),
        (172_800_000, "2 d 0 h"),
        (-1_500, "-1.5 s"),
    ],
)
def test_a_span_is_told_in_the_units_that_matter(milliseconds: int, told: str) -> None:
    assert format.span(milliseconds) == told


@pytest.mark.parametrize(
    ("time", "told"),
    [
        (None, "–"),
        (0, "0"),
        (-5, "-5"),
        (1_700_000_000, "1700000000"),
        (1_700_000_000_007, "2023-11-14 22:13:20.007Z"),
        (2**53 - 1, str(2**53 - 1)),
    ],
)
def test_a_time_is_a_date_where_it_looks_like_one(time: int | None, told: str) -> None:
    assert format.Times().show(time) == told
    assert format.Times(plain=True).show(time) == ("–" if time is None else str(time))


def test_names_that_may_have_been_meant_are_close_ones_else_the_first_few() -> None:
    assert suggestion("ordrs", ["orders", "payments"], "stream") == "did you mean orders?"
    assert suggestion("ORDERS", ["orders"], "stream") == "did you mean orders?"
    assert suggestion("x", [f"s{n}" for n in range(7)], "stream") == "the streams are s0, s1, s2, s3, s4, and 2 more"
    assert suggestion("x", [], "writer") == "there is no writer yet"
