"""Runs a target of the Makefile in a Debian that has its base, Python, make and git, and nothing else.

    sudo .venv/bin/python -m tools.try_bare demo

First by a user without rights: the target has to name all that is missing, with one command, and to work once root has
run that command. Then by root in a fresh copy, where it has to work at once. What is committed is what is tried. This
needs root, debootstrap and some 4 GB for the scratch folder (TMPDIR says where), which is removed at the end, as are
its mounts.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
NAMED: Final = ("python3", "make", "git")  # what README.md expects of a machine
USER: Final = "ada"
HOMES: Final = {"root": Path("/", "root"), USER: Path("/", "home", USER)}
COMMAND: Final = re.compile(r"install (?:it|all of this) with: (.+) \(as root\)$", re.MULTILINE)
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")  # this machine's, which a proxy may add its own to
CERTIFICATES_THERE: Final = Path("/etc/ssl/of-the-machine.crt")
# Mounts of its own, which end with the command, and the devices that every Linux has.
ENTER: Final = """
mount --make-rprivate /
mount -t proc proc "$0/proc"
mount -t tmpfs dev "$0/dev"
mkdir -m 1777 "$0/dev/shm"
for each in null zero full random urandom tty; do touch "$0/dev/$each"; mount --bind "/dev/$each" "$0/dev/$each"; done
ln -s /proc/self/fd "$0/dev/fd"
mkdir "$0/dev/pts"; mount -t devpts -o newinstance,ptmxmode=0666 devpts "$0/dev/pts"; ln -s pts/ptmx "$0/dev/ptmx"
exec chroot --userspec="$1" "$0" sh -c "$2"
"""


class BareError(Exception):
    """A step failed, or something that should have been told was not."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("target", nargs="+", help="of the Makefile, with its variables, as: test TESTS=tests/storage")
    parser.add_argument("--release", default="bookworm", help="of Debian")
    given = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        print("strandline: this needs root, and debootstrap (apt-get install -y debootstrap)", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)  # the user's way home
        try:
            bare = unpacked(Path(scratch) / "bare", given.release)
            copy = Path(scratch) / "copy"
            run("cp", "-a", str(bare), str(copy))
            by_a_user(bare, given.target)
            by_root(copy, given.target)
        except BareError as error:
            print(f"strandline: {error}", file=sys.stderr)
            return 1
    return 0


def unpacked(bare: Path, release: str) -> Path:
    """A Debian with the three packages, the checkout of root and that of the user."""
    say(f"unpacking Debian {release}, {', '.join(NAMED)}")
    run("debootstrap", "--variant=minbase", release, str(bare))
    (bare / "etc" / "hosts").write_text("127.0.0.1 localhost\n")
    shutil.copy("/etc/resolv.conf", bare / "etc")
    if CERTIFICATES.exists():
        there = bare / CERTIFICATES_THERE.relative_to("/")
        there.parent.mkdir(exist_ok=True)
        shutil.copy(CERTIFICATES, there)
    inside(bare, "root", "apt-get install -y -q --no-install-recommends " + " ".join(NAMED), shown=False)
    inside(bare, "root", f"useradd --create-home {USER}")
    for home in HOMES.values():
        run("git", "clone", "-q", "--no-hardlinks", str(ROOT), str(bare / home.relative_to("/") / "strandline"))
    inside(bare, "root", f"chown -R {USER}: {HOMES[USER]}")
    return bare


def by_a_user(bare: Path, target: list[str]) -> None:
    """The target says all that it needs, and works once that is there."""
    make = f"cd ~/strandline && make {' '.join(target)}"
    say(f"make {' '.join(target)}, by a user without rights")
    printed = inside(bare, USER, make, fails=True, shown=False)
    print(printed, end="", flush=True)
    command = COMMAND.search(printed)
    if command is None:
        raise BareError("it did not say what root has to install")
    say(f"as root: {command[1]}")
    inside(bare, "root", f"DEBIAN_FRONTEND=noninteractive {command[1]}", shown=False)
    say("the same once more")
    inside(bare, USER, make)


def by_root(bare: Path, target: list[str]) -> None:
    say(f"make {' '.join(target)}, by root")
    inside(bare, "root", f"cd ~/strandline && make {' '.join(target)}")


def inside(bare: Path, user: str, command: str, *, fails: bool = False, shown: bool = True) -> str:
    """Runs a command in the bare system, with mounts of its own; returns what it says unless that is shown."""
    variables = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    variables["HOME"] = str(HOMES[user])
    if CERTIFICATES.exists():
        variables["PIP_CERT"] = str(CERTIFICATES_THERE)
    enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER, str(bare), user, command]
    output = None if shown else subprocess.PIPE
    done = subprocess.run(enter, env=variables, stdout=output, stderr=subprocess.STDOUT, text=True, check=False)
    if (done.returncode != 0) != fails:
        raise BareError(f"{command!r} ended with status {done.returncode}\n{(done.stdout or '')[-3000:]}")
    return done.stdout or ""


def run(*command: str) -> None:
    """Runs a command of this machine."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise BareError(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}")


def say(line: str) -> None:
    print(f"=== {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
