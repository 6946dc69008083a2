"""Makes the virtual environment .venv and keeps it equal to the requirement files; else does nothing.

Everything comes from requirements/*.txt, by version and hash; the project itself is installed editable.
No step uses build isolation, which would fetch packages that nobody pinned. preflight.py has checked that
this Python can do it.
"""

import fcntl
import hashlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES_PER_LINE = 20
TAIL_LINES = 30
# Of what pip says: large downloads, and what takes long.
WORTH_SHOWING = re.compile(
    r"\s*(Downloading \S+ \(\d{2,}(\.\d+)? MB\)|Building wheel .*: started|Installing collected)"
)


class SetupError(Exception):
    """A step failed; its text says which, and what the tool that failed said."""


def requirements_fingerprint(root: Path) -> str:
    """Changes when a pinned requirement, the Python or the place of the checkout does: scripts hold it."""
    digest = hashlib.sha256(f"{root}\0{sys.version}\0{os.path.realpath(sys.executable)}".encode())
    for file in sorted((root / "requirements").glob("*.txt")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def project_fingerprint(root: Path) -> str:
    """Changes when the installed project's own metadata does; its code is found in place."""
    return hashlib.sha256((root / "pyproject.toml").read_bytes()).hexdigest()


def is_stamped(stamp: Path, fingerprint: str) -> bool:
    """Whether a step was finished for this fingerprint."""
    return stamp.is_file() and stamp.read_text() == fingerprint


def pinned(file: Path) -> int:
    """How many packages a compiled requirement file pins."""
    return sum("==" in line and not line.startswith((" ", "#")) for line in file.read_text().splitlines())


def say(line: str) -> None:
    """Prints a line of progress at once, also where the output is a pipe."""
    print(line, flush=True)


def run(what: str, *command: str | Path, total: int = 0) -> None:
    """Runs a step, shows how far it is, and on failure what it said last."""
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    lines: list[str] = []
    collected = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | quiet, cwd=ROOT
    ) as process:
        for line in map(str.rstrip, process.stdout or ()):
            lines.append(line)
            if line.startswith("Collecting "):
                collected += 1
                if collected % PACKAGES_PER_LINE == 0:
                    say(f"    {collected} of {total} packages looked up")
            elif WORTH_SHOWING.match(line):
                say("    " + line.partition(":")[0].strip())
    if process.returncode != 0:
        tail = "\n".join(lines[-TAIL_LINES:])
        raise SetupError(f"{what} failed with status {process.returncode}; it said last:\n{tail}")


def install_requirements(python: Path) -> None:
    """Installs what the compiled files pin: first the tools that build, which the rest may need."""
    install: list[str | Path] = [python, "-I", "-u", "-m", "pip", "install", "--progress-bar", "off"]
    install += ["--require-hashes", "--no-build-isolation"]
    for number, name in enumerate(("build", "dev"), start=2):
        file = ROOT / "requirements" / f"{name}.txt"
        total = pinned(file)
        say(f"[{number}/4] installing the {total} packages pinned in requirements/{name}.txt")
        if name == "dev":
            say("    the first time these are downloaded, Spark above all: some minutes")
        run(f"installing requirements/{name}.txt", *install, "-r", file, total=total)


def set_up() -> bool:
    """Brings .venv up to date; whether there was anything to do."""
    environment = ROOT / ".venv"
    python = environment / "bin" / "python"
    requirements_stamp, project_stamp = environment / "requirements.stamp", environment / "project.stamp"
    fresh = not (python.exists() and is_stamped(requirements_stamp, requirements_fingerprint(ROOT)))
    if fresh:
        say(f"strandline: setting up the virtual environment .venv with Python {sys.version.split()[0]}")
        say("[1/4] making it")
        run("making .venv", sys.executable, "-I", "-m", "venv", "--clear", environment)
        install_requirements(python)
        requirements_stamp.write_text(requirements_fingerprint(ROOT))
    if is_stamped(project_stamp, project_fingerprint(ROOT)):
        return fresh
    say("[4/4] installing strandline itself, editable")
    install = (python, "-I", "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--editable", ROOT)
    run("installing strandline", *install)
    project_stamp.write_text(project_fingerprint(ROOT))
    return True


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Waits until no other make sets up the same checkout."""
    descriptor = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def main() -> int:
    """Sets up, and says how long that took."""
    started = time.monotonic()
    try:
        with alone(ROOT):
            if set_up():
                say(f"strandline: .venv is ready after {time.monotonic() - started:.0f} s")
    except (SetupError, OSError) as error:
        print(f"strandline: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("strandline: interrupted; the next make starts setting up again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
