"""Does what deploy/container/Containerfile says without a container engine, and starts what comes out.

    .venv/bin/python -m tools.try_image /usr/bin/python3.11

The steps are read from the file, so that they are the same. They run in a scratch folder that stands for the image's
root: absolute paths of a step lead into it. The given Python stands for the base image's; as root, the controller runs
under the number of the image's user, who has to be able to start that Python: one below root's home is refused. Only an
engine can fetch the base image and add its user; that is said, and not done.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
FILE: Final = ROOT / "deploy" / "container" / "Containerfile"
# What the file's steps name of the image's root. Everything else is as on this machine.
OF_THE_IMAGE: Final = re.compile(r"(?<![\w.-])(?=/(?:opt|usr/src|var/lib/strandline)\b)")
ONLY_AN_ENGINE: Final = ("useradd",)
SECONDS: Final = 120  # for the controller to be ready


class StepError(Exception):
    """A step failed, or is not one that this program knows."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "python", nargs="?", default=sys.executable, help="what the base image has; this one unless given"
    )
    given = parser.parse_args()
    todo = steps(FILE.read_text())
    python = shutil.which(given.python) or given.python
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)  # the image's user looks in
        try:
            user = users_number(todo) if os.geteuid() == 0 else None
            check_starts(python, user)
            image = Image(Path(name), python, user)
            for number, (instruction, rest) in enumerate(todo, start=1):
                print(f"[{number}] {instruction} {rest}", flush=True)
                image.do(instruction, rest)
            image.try_it()
        except StepError as error:
            print(f"strandline: {error}", file=sys.stderr)
            return 1
    print("the image's contents work")
    return 0


def steps(text: str) -> list[tuple[str, str]]:
    """The instructions with what follows them; lines that end with a backslash are joined."""
    lines = [line.strip() for line in text.replace("\\\n", " ").splitlines()]
    parted = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in parted]


def users_number(todo: list[tuple[str, str]]) -> int:
    """The number of the image's user."""
    (number,) = [int(rest) for instruction, rest in todo if instruction == "USER"]
    return number


def check_starts(python: str, user: int | None) -> None:
    """Raises StepError if this user cannot start a Python, as one below root's home."""
    try:
        subprocess.run([python, "-c", ""], cwd="/", user=user, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        who = "" if user is None else f"user {user} of the image cannot start it: "
        raise StepError(f"{python} cannot be used: {who}{error}; name another, such as /usr/bin/python3") from error


class Image:
    """What an engine would build, in a folder. A new stage begins in the same folder, so that paths stay true."""

    def __init__(self, scratch: Path, python: str, user: int | None) -> None:
        self._scratch, self._root = scratch, scratch / "root"
        self._stage = ""
        self._cwd = self._root
        self._programs = scratch / "programs"
        self._programs.mkdir()
        for each in ("python", "python3"):
            (self._programs / each).write_text(f'#!/bin/sh\nexec {shlex.quote(python)} "$@"\n')
            (self._programs / each).chmod(0o755)
        self._variables: dict[str, str] = {}
        self._ends: dict[str, list[str]] = {}
        self._user = user

    def do(self, instruction: str, rest: str) -> None:
        """One step of the file."""
        match instruction:
            case "FROM":
                self._begin(rest)
            case "WORKDIR":
                self._cwd = self._there(rest)
                self._cwd.mkdir(parents=True, exist_ok=True)
            case "COPY":
                self._copy(shlex.split(rest))
            case "RUN":
                self._run(rest)
            case "ENV":
                for word in shlex.split(rest):
                    name, _, value = word.partition("=")
                    self._variables[name] = self._placed(value.replace("$PATH", self._environment()["PATH"]))
            case "USER" | "VOLUME" | "EXPOSE":
                pass
            case "ENTRYPOINT" | "CMD":
                self._ends[instruction] = json.loads(rest)
            case "HEALTHCHECK":
                self._ends[instruction] = json.loads(rest.partition(" CMD ")[2])
            case _:
                raise StepError(
                    f"{FILE.name} has {instruction}, which this program does not know: add it to {__name__}"
                )

    def _begin(self, rest: str) -> None:
        if self._root.exists():
            self._root.rename(self._scratch / self._stage)
        self._stage = rest.partition(" AS ")[2] or "last"
        self._root.mkdir()
        self._cwd, self._variables = self._root, {}

    def _copy(self, words: list[str]) -> None:
        *sources, last = words
        target = self._there(last) if last.startswith("/") else self._cwd / last
        origin = ROOT
        if sources[0].startswith("--from="):
            origin = self._scratch / sources.pop(0).removeprefix("--from=")
        for source in sources:
            found = origin / source.lstrip("/")
            if found.is_dir():
                ignored = shutil.ignore_patterns("__pycache__") if origin == ROOT else None
                shutil.copytree(found, target, symlinks=True, ignore=ignored, dirs_exist_ok=True)
            else:
                file = target / found.name if last.endswith("/") else target
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, file)

    def _run(self, command: str) -> None:
        if command.split()[0] in ONLY_AN_ENGINE:
            print("    not done: this needs the image's own list of users")
            return
        done = subprocess.run(
            ["sh", "-c", self._placed(command)],
            cwd=self._cwd,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise StepError(f"RUN failed with status {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")

    def try_it(self) -> None:
        """Makes a token, starts what the image starts, and waits until its own check of its health succeeds."""
        if self._user is not None:
            os.chown(self._cwd, self._user, self._user)
        port = free_port()
        variables = {**self._environment(), "STRANDLINE_PORT": str(port), "STRANDLINE_HOST": "127.0.0.1"}
        start = self._ends["ENTRYPOINT"]
        self._as_user([*start, "token", "create", "admin", "--role", "admin"], variables)
        health = [word.replace(":8433/", f":{port}/") for word in self._ends["HEALTHCHECK"]]
        print(f"    starting {' '.join([*start, *self._ends['CMD']])}", flush=True)
        with subprocess.Popen([*start, *self._ends["CMD"]], cwd=self._cwd, env=variables, user=self._user) as process:
            try:
                self._wait_until_well(health, variables, process)
            finally:
                process.terminate()
        if process.returncode:
            raise StepError(f"the controller ended with status {process.returncode}")

    def _wait_until_well(self, health: list[str], variables: dict[str, str], process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + SECONDS
        while True:
            try:
                self._as_user(health, variables)
            except StepError:
                if process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.2)
            else:
                return

    def _as_user(self, command: list[str], variables: dict[str, str]) -> None:
        done = subprocess.run(
            command, cwd=self._cwd, env=variables, user=self._user, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise StepError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")

    def _there(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def _placed(self, text: str) -> str:
        """The text with its absolute paths in the scratch folder."""
        return OF_THE_IMAGE.sub(str(self._root), text)

    def _environment(self) -> dict[str, str]:
        """This machine's, without what would let a program see the checkout, and the image's own variables."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "STRANDLINE_"))
        }
        return {**inherited, "PATH": f"{self._programs}:/usr/bin:/bin", **self._variables}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
