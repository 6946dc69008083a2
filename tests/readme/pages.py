"""Pages of the documentation, walked as a stranger would: every block in its order, in a folder of his own.

    sh      is run: `strandline …` in this process, what goes on for ever in one of its own, everything else by bash.
            A comment behind a command may say that it "fails", "may fail", is "refused", or "goes on".
    python  is executed, all blocks of a page as one program. One that begins with "# name.py" is saved under that name.
    text    is what the block before it printed; "…" stands for anything.
    others  (yaml, ini, java …) begin with "# name" or "// name" and are saved.

Addresses are replaced by those of what really runs. `make` and `pip install` are only looked at.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from controller.cli import main

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
CONTROLLER = "127.0.0.1:8433"  # where pages have it
DEADLINE_S = 60
COMPLAINT = 4_000  # characters of what a program that failed wrote last
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"(?:#|//) ([\w./-]+\.\w+)\n")
FOR_BASH = re.compile(r"[|<>;&`$*]")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, and where it stands."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        """The name that it is saved under, if it is a file."""
        named = NAMED.match(self.text)
        return named[1] if named else None


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page, which is named from the project's folder."""
    text = (ROOT / page).read_text()
    return [Block(page, text.count("\n", 0, found.start()) + 1, found[1], found[2]) for found in FENCED.finditer(text)]


def commands_of(text: str) -> list[str]:
    """The commands in a shell block, comments kept; lines that end with a backslash are joined."""
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]


class Running:
    """A command that goes on until it is stopped, and what it has said so far."""

    def __init__(self, words: list[str]) -> None:
        self._process = subprocess.Popen(
            [str(BIN / words[0]), *words[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.said = ""
        self._more = threading.Condition()
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._more:
                self.said += line
                self._more.notify_all()
        with self._more:
            self._more.notify_all()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """What it says first that fits."""
        with self._more:
            self._more.wait_for(
                lambda: re.search(pattern, self.said, re.DOTALL) or not self._reading.is_alive(), DEADLINE_S
            )
            found = re.search(pattern, self.said, re.DOTALL)
        assert found, f"{self._process.args!r} said {self.said!r}, which has no {pattern!r}"
        return found

    def stop(self) -> None:
        """Ends it as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(DEADLINE_S) in (0, 130), self.said
        self._reading.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Stranger(contextlib.ExitStack):
    """Whoever types what the pages show. `names` are there for Python's blocks, `replaced` says what is where here."""

    def __init__(
        self,
        folder: Path,
        *,
        controller: str | None = None,
        replaced: Mapping[str, str] | None = None,
        names: dict[str, Any] | None = None,
        deadline_s: float | None = None,
    ) -> None:
        super().__init__()
        self.folder = folder
        self.names: dict[str, Any] = {} if names is None else names
        self.controller = ""  # where the one is that commands ask
        self.said = ""
        self._deadline_s = deadline_s  # of programs in processes of their own, if they are to be
        self._replaced = dict(replaced or {})
        self._server: Running | None = None
        self._running: Running | None = None
        if controller is not None:
            self._serve_at(controller)

    def __enter__(self) -> Self:
        super().__enter__()
        before = dict(os.environ)
        self.callback(os.environ.update, before)
        self.callback(os.environ.clear)  # which comes first
        self.callback(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))  # a page shows a handler
        for name in [name for name in before if name.startswith("STRANDLINE_")]:
            del os.environ[name]
        os.environ |= {"PATH": f"{BIN}:{before['PATH']}", "PYTHONPATH": str(ROOT), "STRANDLINE_PORT": "0"}
        os.environ["PYTHONUNBUFFERED"] = "1"  # what a program that goes on prints is to be seen
        self._tell_commands()
        self.enter_context(contextlib.chdir(self.folder))
        self.callback(self._stop_serving)
        self.callback(self.names.clear)  # what a page leaves open is let go of
        return self

    def walk(self, page: str) -> None:
        """Does all of a page."""
        for block in blocks_of(page):
            self.do(block)

    def do(self, block: Block) -> None:
        """Does what a block shows; raises where that fails, or where it prints something else."""
        text = self._here(block.text)
        match block.language:
            case "sh":
                self.said = ""
                for line in commands_of(text):
                    self._command(block, line)
            case "text":
                self._expect(block, text)
            case _ if (file := block.file) is not None:
                (self.folder / file).write_text(text)
            case "python":
                self.said = self._execute(compile(text, str(block), "exec"))
            case other:
                raise AssertionError(f"{block}: what is a block of {other!r}, without a name to save it under?")

    # -- what is typed ---------------------------------------------------------------------------------------

    def _command(self, block: Block, line: str) -> None:
        command, _, comment = line.partition(" #")
        words = shlex.split(command)
        match words:
            case ["make" | "pip" | "source", *_] | ["python3", "-m", "venv", ".venv"]:
                _check(words)
            case ["export", setting]:
                name, _, value = setting.partition("=")
                os.environ[name] = value
            case ["strandline", "serve"] if self.controller and self._server is None:
                pass  # the one that was given
            case ["strandline", "serve", *_]:
                self._serve(words)
            case ["strandline", verb, *rest] if _goes_on(verb, rest):
                self._start(words).wait_for(r"\n")
            case ["python", _] if "goes on" in comment:
                self._start(words)
            case ["strandline", *rest] if not FOR_BASH.search(re.sub(r"'[^']*'", "", command)):
                code, said = self._run(rest)
                self._ended(block, line, code, said, fails="fails" in comment)
            case ["python", *rest] if self._deadline_s is None:
                self.said += self._execute(rest)
            case ["python", *rest]:
                done = subprocess.run(
                    [sys.executable, *rest], capture_output=True, text=True, check=False, timeout=self._deadline_s
                )
                self._ended(block, line, done.returncode, done.stdout, fails=False, complained=done.stderr)
            case _:
                words = ["bash", "-c", command.replace("curl ", "curl --silent --show-error ")]
                done = subprocess.run(
                    words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                    timeout=self._deadline_s or DEADLINE_S,
                )  # fmt: skip
                self._ended(block, line, done.returncode, done.stdout, fails="fails" in comment)

    def _ended(self, block: Block, line: str, code: int, said: str, *, fails: bool, complained: str = "") -> None:
        self.said += said
        told = f"{block}: {line!r} left with {code}: {said}{complained[-COMPLAINT:]}"
        assert "# may fail" in line or (code != 0) == fails, told
        if "curl" in line and "refused" not in line:
            assert '"code":' not in said, f"{block}: {line!r} was answered {said}"

    def _run(self, words: list[str]) -> tuple[int, str]:
        """A command in this process, which is quick: what it left with, and what a terminal would show."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = main(words)
        return code, said.getvalue()

    def _execute(self, code: Any) -> str:
        """Python, a file of it by its name, in this process, so that Spark is started once."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            match code:
                case [file, *_]:
                    before, sys.argv = sys.argv, code
                    try:
                        runpy.run_path(file, run_name="__main__")
                    finally:
                        sys.argv = before
                case _:
                    exec(code, self.names)
        return said.getvalue()

    # -- what goes on ----------------------------------------------------------------------------------------

    def _start(self, words: list[str]) -> Running:
        """What is said next is what it says, until another command says something."""
        self.said = ""
        self._running = Running(words)
        self.callback(self._running.stop)
        return self._running

    def _serve(self, words: list[str]) -> None:
        """A controller, in the place of one that was started before."""
        self._stop_serving()
        self.said = ""
        self._server = self._running = Running(words)
        self._serve_at(self._server.wait_for(r"is ready at (https?://\S+)")[1])
        self._tell_commands()

    def _stop_serving(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _serve_at(self, url: str) -> None:
        address = url.partition("://")[2]
        self.controller = url
        self._replaced |= {CONTROLLER: address, CONTROLLER.replace("127.0.0.1", "localhost"): address}

    def _tell_commands(self) -> None:
        if self.controller:
            os.environ["STRANDLINE_CONTROLLER"] = self.controller

    # -- what is said ----------------------------------------------------------------------------------------

    def _here(self, text: str) -> str:
        for name in sorted(self._replaced, key=len, reverse=True):
            text = text.replace(name, self._replaced[name])
        return text

    def _expect(self, block: Block, text: str) -> None:
        pattern = r"\s+".join(".*".join(map(re.escape, word.split("…"))) for word in text.split())
        if self._running is not None and not self.said:
            self._running.wait_for(pattern)
        else:
            told = f"{block}: the page has\n{text}\nand it printed\n{self.said}"
            assert re.fullmatch(pattern, self.said.strip(), re.DOTALL), told


def _goes_on(command: str, rest: list[str]) -> bool:
    """Whether it does until somebody stops it."""
    return "--follow" in rest or command == "watch" or (command in ("tail", "relay") and "--once" not in rest)


def _check(words: list[str]) -> None:
    """What is not done again for each page: there is such a target, or such an extra."""
    match words:
        case ["make", target, *_]:
            assert f"\n{target}: " in (ROOT / "Makefile").read_text(), f"there is no make {target}"
        case ["pip", "install", what]:
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
            named = re.fullmatch(r"\.(?:\[([\w,]+)\])?", what)
            assert named, f"{what} is not ours"
            assert set((named[1] or "").split(",")) - {""} <= set(extras), f"{what}: the extras are {sorted(extras)}"
        case ["python3", "-m", "venv", ".venv"]:
            return
        case _:
            assert words == ["source", ".venv/bin/activate"], f"what is {words}?"
