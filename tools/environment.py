"""Creates the virtual environment .venv, or updates it to match its requirement files if they changed.

All packages come from tools/requirements/*.txt, by version and hash; the project itself is installed editable.
`separate` makes the environments that other tools have for themselves. No step uses build isolation, which would fetch
unpinned packages. preflight.py has checked this Python.
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
OF_THE_WORKSHOP = ("build", "dev")  # the files of tools/requirements/ that .venv has
# The targets with an environment of their own, and the files that it has.
OF_THEIR_OWN = {"lowest": ("build", "lowest"), "site": ("site",)}
# Lines of pip's output to show: large downloads and long steps.
WORTH_SHOWING = re.compile(
    r"\s*(Downloading \S+ \(\d{2,}(\.\d+)? MB\)|Building wheel .*: started|Installing collected)"
)


class SetupError(Exception):
    """A step failed. The message names the step, and has the last output of its tool."""


def requirements_fingerprint(root: Path, *names: str) -> str:
    """Changes with the pinned requirements, the Python and the path of the checkout, which scripts contain."""
    digest = hashlib.sha256(f"{root}\0{sys.version}\0{os.path.realpath(sys.executable)}".encode())
    for name in names:
        file = root / "tools" / "requirements" / f"{name}.txt"
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def project_fingerprint(root: Path) -> str:
    """Changes with the project's metadata. Its code is installed editable, so changes of it do not matter."""
    return hashlib.sha256((root / "pyproject.toml").read_bytes()).hexdigest()


def is_stamped(stamp: Path, fingerprint: str) -> bool:
    """Whether a step was finished for this fingerprint."""
    return stamp.is_file() and stamp.read_text() == fingerprint


def pinned(file: Path) -> int:
    """How many packages a compiled requirement file pins."""
    return sum("==" in line and not line.startswith((" ", "#")) for line in file.read_text().splitlines())


def say(line: str) -> None:
    """Prints a line of progress and flushes it, since the output may be a pipe."""
    print(line, flush=True)


def run(what: str, *command: str | Path, total: int = 0) -> None:
    """Runs a step and shows its progress; raises SetupError with its last output if it fails."""
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
        raise SetupError(f"{what} failed with status {process.returncode}; its last output:\n{tail}")


def set_up() -> bool:
    """Updates .venv; returns whether there was anything to do."""
    environment = ROOT / ".venv"
    if environment.is_symlink():
        environment.unlink()  # it leads to the one of another checkout, which stays as it is
    fresh = made(environment, *OF_THE_WORKSHOP)
    stamp = environment / "project.stamp"
    if is_stamped(stamp, project_fingerprint(ROOT)):
        return fresh
    say("strandline: installing strandline itself, editable")
    install = ("-I", "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--editable", ROOT)
    run("installing strandline", environment / "bin" / "python", *install)
    stamp.write_text(project_fingerprint(ROOT))
    return True


@contextmanager
def separate(target: str) -> Iterator[Path]:
    """The Python of a target's own environment, for one process at a time; it is made again when its pins change."""
    work = ROOT / f".{target}"
    work.mkdir(exist_ok=True)
    with alone(work):
        made(work / "venv", *OF_THEIR_OWN[target])
        yield work / "venv" / "bin" / "python"


def made(folder: Path, *names: str) -> bool:
    """Makes an environment with what these files of tools/requirements/ pin, unless it is there; whether it did."""
    python, stamp = folder / "bin" / "python", folder / "requirements.stamp"
    fingerprint = requirements_fingerprint(ROOT, *names)
    if python.exists() and is_stamped(stamp, fingerprint):
        return False
    shown = folder.relative_to(ROOT)
    say(f"strandline: setting up the virtual environment {shown} with Python {sys.version.split()[0]}")
    run(f"creating {shown}", sys.executable, "-I", "-m", "venv", "--clear", folder)
    install = (python, "-I", "-u", "-m", "pip", "install", "--progress-bar", "off", "--require-hashes")
    isolation = ("--no-build-isolation",) if "build" in names else ("--only-binary", ":all:")
    for name in names:  # the build tools first, which the other packages may need
        file = ROOT / "tools" / "requirements" / f"{name}.txt"
        say(f"strandline: installing the {pinned(file)} packages pinned in tools/requirements/{name}.txt")
        if name == "dev":
            say("    the first time this downloads them, mostly Spark, and takes some minutes")
        run(f"installing tools/requirements/{name}.txt", *install, *isolation, "-r", file, total=pinned(file))
    stamp.write_text(fingerprint)
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
    """Sets up, and prints how long that took."""
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
