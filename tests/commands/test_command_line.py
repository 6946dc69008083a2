"""The commands as a whole: their page, their completion, and what they need."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
from click.shell_completion import BashComplete

from controller.cli import COMMANDS, load, main, strandline
from controller.operators import wording
from strandline.core.aggregate import Holder

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "command-line.md"
# What commands have loaded when they are done, without the standard library.
LOADED = """
import sys
from controller.cli import main
for words in sys.argv[1:]:
    main(words.split())
loaded = {name.split(".")[0] for name in sys.modules}
print("loaded", *sorted(loaded & {"fastapi", "httpx", "numpy", "sqlalchemy", "uvicorn"}))
"""
# What Python says of a package that is not installed.
COMMON = {"--controller", "--token", "--token-file", "--ca-file", "--json", "--plain-times"}
WITHOUT = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
missing = sys.argv.pop(1).split()
sys.meta_path.insert(0, Nothing())
"""
RUN = "from controller.__main__ import main; sys.exit(main())"
LOAD_ALL = "from controller.cli import COMMANDS, load; [load(name) for name in COMMANDS]"


def options_of(command: click.Command) -> set[str]:
    """The options of a command and of those within it."""
    within = command.commands.values() if isinstance(command, click.Group) else ()
    own = {name for each in command.params if isinstance(each, click.Option) for name in each.opts}
    return own.union(*map(options_of, within))


def sections() -> dict[tuple[str, ...], str]:
    """The page's sections by the commands that they are about."""
    found = {}
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        found[tuple(re.findall(r"`(\w+)`", title))] = text
    return found


# -- the page --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commands", sections())
def test_the_page_names_only_options_that_its_commands_have(commands: tuple[str, ...]) -> None:
    """All of them are in the reference, which is made from the commands."""
    known = set[str]().union(*(options_of(load(each)) for each in commands))
    assert set(re.findall(r"--[a-z-]+", sections()[commands])) - COMMON <= known


def test_every_command_that_the_page_shows_is_one_that_the_parser_takes() -> None:
    shown = re.findall(r"^strandline (.*)$", PAGE.read_text(), re.MULTILINE)
    assert len(shown) > 20
    for line in shown:
        name, *words = shlex.split(line, comments=True)
        load(name).make_context(name, words)


def contexts_of_commands() -> Iterator[click.Context]:
    """Each command and subcommand, as it is called by its name."""
    root = click.Context(strandline, info_name="strandline")
    for name in COMMANDS:
        ctx = click.Context(load(name), parent=root, info_name=name)
        yield ctx
        if isinstance(ctx.command, click.Group):
            for each, command in ctx.command.commands.items():
                yield click.Context(command, parent=ctx, info_name=each)


def test_help_names_every_variable_and_fits_80_columns() -> None:
    for ctx in contexts_of_commands():
        helped = ctx.get_help()
        assert [line for line in helped.splitlines() if len(line) > 80] == []
        if not isinstance(ctx.command, click.Group):
            names = [each.opts[0] for each in ctx.command.params if isinstance(each, click.Option)]
            variables = {f"STRANDLINE_{name[2:].upper().replace('-', '_')}" for name in names}
            assert set(re.findall(r"STRANDLINE_\w+", helped)) == variables


# -- completion ------------------------------------------------------------------------------------------------


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with `strandline`."""
    program = tmp_path / "strandline"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m controller "$@"\n')
    program.chmod(0o755)
    return tmp_path


def test_bash_asks_strandline_what_completes_a_word(capsys: pytest.CaptureFixture[str], programs: Path) -> None:
    assert main(["completion", "bash"]) == 0
    asked = (
        f"{capsys.readouterr().out}\nCOMP_WORDS=(strandline marks orders --fo)\nCOMP_CWORD=3\n"
        f'_strandline_completion strandline\necho "${{COMPREPLY[@]}}"'
    )
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", asked], env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (["--follow"], "")


@pytest.mark.parametrize(
    ("words", "begun", "completed"),
    [
        ([], "wr", ["writers"]),
        (["writers", "orders", "--state"], "a", ["active"]),
        (["token"], "re", ["revoke"]),
        (["nothing"], "--x", []),
    ],
)
def test_commands_options_and_choices_are_completed(words: list[str], begun: str, completed: list[str]) -> None:
    found = BashComplete(strandline, {}, "strandline", "_STRANDLINE_COMPLETE").get_completions(words, begun)
    assert [each.value for each in found] == completed


def test_the_version_is_that_of_the_installed_package(outside: Callable[..., Any]) -> None:
    assert outside("--version").out == f"strandline {version('strandline')}\n"


# -- what they need --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("commands", "loaded"), [(("streams", "overview"), ["httpx"]), (("completion bash", "--help"), [])]
)
def test_a_command_that_asks_needs_nothing_of_the_server(
    served: Any, commands: tuple[str, ...], loaded: list[str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *commands],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "STRANDLINE_CONTROLLER": served.url},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1].split() == ["loaded", *loaded]


@pytest.mark.parametrize(
    ("missing", "words", "status", "extra"),
    [
        ("click", ("streams",), 1, "cli"),
        ("sqlalchemy", ("token", "list"), 1, "controller"),
        ("sqlalchemy", ("check",), 2, "controller"),
        ("uvicorn", ("serve",), 1, "controller"),
        ("adbc_driver_sqlite", ("demo",), 1, "dashboard,sqlite"),
        ("pyspark", ("demo", "--spark"), 1, "demo"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    tmp_path: Path, missing: str, words: tuple[str, ...], status: int, extra: str
) -> None:
    command = [sys.executable, "-c", WITHOUT + RUN, missing, *words]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (status, "")
    assert f"{missing} is not installed: pip install '.[{extra}]' in a clone of Strandline" in done.stderr


def test_ctrl_c_while_the_command_line_is_imported_ends_it_without_a_word() -> None:
    interrupted = WITHOUT.replace('ModuleNotFoundError(f"No module named {name!r}", name=name)', "KeyboardInterrupt")
    command = [sys.executable, "-c", interrupted + RUN, "click", "streams"]
    done = subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.full
def test_without_the_library_of_the_pages_a_controller_says_so_and_serves_everything_else(tmp_path: Path) -> None:
    words = ["serve", "--database", str(tmp_path / "store.db"), "--port", "0"]
    command = [sys.executable, "-c", WITHOUT + RUN, "jinja2", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(ROOT)}) as process:
        assert process.stdout is not None
        url = process.stdout.readline().rpartition(" ")[2].strip()
        answer, status = httpx.get(url), httpx.get(f"{url}/v1/status")
        process.terminate()
    assert answer.status_code == 200 and "pip install '.[dashboard]'" in answer.text
    assert status.status_code == 200


def test_every_commands_help_needs_click_and_the_base_install(tmp_path: Path) -> None:
    missing = "adbc_driver_sqlite confluent_kafka fastapi jinja2 matplotlib numpy pyarrow pyspark sqlalchemy uvicorn"
    command = [sys.executable, "-c", WITHOUT + LOAD_ALL, missing]
    subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, check=True)


# -- words -----------------------------------------------------------------------------------------------------


def test_who_holds_time_back_is_told_in_a_sentence() -> None:
    def told(**more: Any) -> str:
        known = {"writer": "w3", "state": "active", "time": 5, "last_heard_ms_ago": 12_000, "released_in_ms": 48_000}
        return wording.holding(Holder(**{**known, **more}))

    assert told() == "w3 holds, 12 s silent, times out in 48 s"
    assert told(released_in_ms=None) == "w3 holds, 12 s silent, never times out"
    assert told(state="joined", time=None) == "w3 (joined) holds and has no time yet, 12 s silent, times out in 48 s"
    assert told(released_in_ms=0) == "w3 holds, 12 s silent, times out now"
    assert told(writer=None) == "too few writers have noted (min_writers)"
    assert wording.holding(None) == "nobody"


def test_the_segments_of_a_position_stand_in_order() -> None:
    assert wording.offsets({"10": 1, "b": 4, "2": 5, "a": 3}) == "2=5,10=1,a=3,b=4"
    assert wording.offsets({str(segment): 1 for segment in range(200, 0, -1)}).startswith("1=1,2=1,3=1,")
    assert wording.offsets({}) == "–"


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
    assert wording.span(milliseconds) == told


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
    assert wording.Times().show(time) == told
    assert wording.Times(plain=True).show(time) == ("–" if time is None else str(time))
