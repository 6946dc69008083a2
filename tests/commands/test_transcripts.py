"""What commands print, as transcripts: each file of `transcripts/` is a session with a controller of its own.

    stream NAME {…}          creates a stream of two segments in which every note makes a mark, with these settings
    note STREAM W TIME S=O   a note of writer W
    POST PATH {…}            any other call of the API, which has to succeed
    $ COMMAND                is run; the lines below it, up to an empty one, are all that it prints.
                             "…" stands for anything, alone for lines.
    ! LINE                   is a line on standard error
    exit N                   is what the command leaves with, where that is not 0, or 1 with a line on standard error
    $ COMMAND ?? SENTENCE    is a mistake in the command line, which leaves with 2
    = GET PATH               instead of lines: it prints the JSON with which the API answers now
    ~ JSON                   instead of lines: it prints JSON that has at least this
    each WORD | WORD …       the next command is run with each of these for `EACH`, and prints the same

NOON and NOON+5 are times in milliseconds. A line that begins with # is a comment.
"""

from __future__ import annotations

import json
import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.app import create_app
from controller.cli import main
from controller.settings import Settings
from tests.in_thread import InThread

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
NOON = 1_700_000_000_000  # 2023-11-14 22:13:20
EXIT = re.compile(r"exit \d+$")
PASSING = {"last_heard_ms_ago", "released_in_ms"}  # differs from one answer to the next


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InThread]:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        served = InThread(create_app(Settings(database=f"sqlite:///{tmp_path / 'served.db'}")), listener)
        monkeypatch.setenv("STRANDLINE_CONTROLLER", served.url)
        yield served
        served.stop()


def calls(controller: InThread, line: str) -> Any:
    """Does what a line that is no command says."""
    body: Any
    match shlex.split(line, posix=False):
        case ["stream", name, *settings]:
            given = json.loads(" ".join(settings) or "{}")
            method, path, body = "PUT", f"streams/{name}", {"segments": 2, "mark_interval_ms": 0, **given}
        case ["note", stream, writer, time, *position]:
            offsets = {segment: int(offset) for segment, _, offset in (each.partition("=") for each in position)}
            body = {"writer": writer, "time": int(time), "position": offsets}
            method, path = "POST", f"streams/{stream}/notes"
        case [method, path, *rest]:
            body = json.loads(" ".join(rest) or "null")
        case _:
            raise AssertionError(f"what is {line!r}?")
    answer = controller.ask(method, f"/v1/{path}", body)
    assert answer.is_success, f"{line}: {answer.status_code} {answer.text}"
    return answer.json() if answer.content else None


def without_passing(value: Any) -> Any:
    match value:
        case dict():
            return {name: without_passing(each) for name, each in value.items() if name not in PASSING}
        case list():
            return [without_passing(each) for each in value]
        case _:
            return value


def has(found: Any, wanted: Any) -> bool:
    """Whether it is the same, but for what objects have beside it."""
    match wanted:
        case dict():
            return isinstance(found, dict) and all(
                name in found and has(found[name], each) for name, each in wanted.items()
            )
        case list():
            return isinstance(found, list) and len(found) == len(wanted) and all(map(has, found, wanted))
        case _:
            return bool(found == wanted)


def fits(printed: str, wanted: list[str]) -> bool:
    """Columns may be of any width."""

    def pattern(line: str) -> str:
        if line == "…":
            return r"(?:.*\n)*"
        return r"[^\S\n]+".join(".*".join(map(re.escape, word.split("…"))) for word in line.split()) + r"\n"

    lines = "".join(f"{line.strip()}\n" for line in printed.splitlines() if line.strip())
    return re.fullmatch("".join(map(pattern, wanted)), lines) is not None


def check(controller: InThread, where: str, done: tuple[int, str, str], wanted: list[str], wrong: str) -> None:
    code, out, err = done
    told = f"{where} left with {code} and printed\n{out}\non standard error\n{err}"
    said = [each[2:] for each in wanted if each.startswith("! ")]
    codes = [int(each.split()[1]) for each in wanted if EXIT.match(each)] or [1 if said else 0]
    if wrong:
        said, codes = ["Usage: strandline …", "Try 'strandline…--help' for help.", f"Error: {wrong}"], [2]
    assert code == codes[0] and fits(err, said), told
    match [each for each in wanted if not each.startswith("! ") and not EXIT.match(each)]:
        case [line] if line.startswith("= "):
            assert without_passing(json.loads(out)) == without_passing(calls(controller, line[2:])), told
        case [line] if line.startswith("~ "):
            assert has(json.loads(out), json.loads(line[2:])), told
        case lines:
            assert fits(out, lines), told


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: str(each.stem))
def test_commands_print_what_the_transcript_has(
    controller: InThread, transcript: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = re.sub(r"NOON(?:\+(\d+))?", lambda found: str(NOON + int(found[1] or 0)), transcript.read_text())
    words = [""]
    for step in re.split(r"^(?=\$ )|\n\n", text, flags=re.MULTILINE):
        first, *lines = [line for line in step.splitlines() if line and not line.startswith("# ")] or [""]
        if not first.startswith("$ "):
            for line in filter(None, [first, *lines]):
                if line.startswith("each "):
                    words = [each.strip() for each in line.removeprefix("each ").split(" | ")]
                else:
                    calls(controller, line)
            continue
        for word in words:
            command, _, wrong = first.removeprefix("$ ").replace("EACH", word).partition(" ?? ")
            code = main(shlex.split(command))
            check(controller, f"{transcript.name}: {command!r}", (code, *capsys.readouterr()), lines, wrong)
        words = [""]
