"""Fetches the jars that tests need from Maven Central, if they are missing or outdated, and prints their folder.

tools/pom.xml names them by their coordinates, in a profile for each folder. Maven caches them in ~/.m2, for all
checkouts. Without a name as argument, it fetches every profile.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
POM = ROOT / "tools" / "pom.xml"
JARS = ROOT / ".jars"
PROFILES = ("kafka", "spark-kafka")
CONNECTOR = "SPARK_CONNECTOR"  # a variable with the release of Spark's connector, in place of the pom's
INSTALL = "apt-get install -y maven"
ELSEWHERE = "make jars, where Maven Central can be reached, or a mirror of it that ~/.m2/settings.xml names"
FETCH_DEADLINE_S = 240  # below pytest's own timeout of 300


class JarsError(Exception):
    """The jars cannot be fetched: `what` is the reason, and `how` says what to do."""

    def __init__(self, what: str, how: str = ELSEWHERE) -> None:
        super().__init__(what, how)
        self.what = what
        self.how = how

    def __str__(self) -> str:
        return f"{self.what}; to get them: {self.how}"


def fetched(profile: str) -> Path:
    """The folder with the jars of a profile. Fetches them if they are missing, or if the pom has changed."""
    release = os.environ.get(CONNECTOR) if profile == "spark-kafka" else None
    name = f"{profile}-{release}" if release else profile
    folder, stamp = JARS / name, JARS / f"{name}.stamp"
    with _alone():
        fingerprint = hashlib.sha256(POM.read_bytes()).hexdigest()
        if not (folder.is_dir() and stamp.is_file() and stamp.read_text() == fingerprint):
            _fetch(profile, folder, [f"-Dspark.connector={release}"] if release else [])
            stamp.write_text(fingerprint)
    return folder


def _fetch(profile: str, folder: Path, properties: list[str]) -> None:
    if shutil.which("mvn") is None:
        raise JarsError(f"Maven, which fetches the jars of {profile}, is not installed", INSTALL)
    draft = folder.with_name(f"{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    command = ["mvn", "--batch-mode", "--quiet", "--update-snapshots", "--file", str(POM), "--activate-profiles"]
    command += [profile, "dependency:copy-dependencies", f"-DoutputDirectory={draft}", *properties]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=FETCH_DEADLINE_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise JarsError(f"Maven did not fetch the jars of {profile} within {FETCH_DEADLINE_S} s") from error
    if done.returncode != 0 or not any(draft.glob("*.jar")):
        raise JarsError(f"Maven could not fetch the jars of {profile}: {_first_error(done.stdout + done.stderr)}")
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)


def _first_error(output: str) -> str:
    lines = [line.partition("[ERROR]")[2].strip() for line in output.splitlines() if "[ERROR]" in line]
    first = (lines or output.strip().splitlines() or ["it gave no reason"])[0]
    return first.partition(" -> [Help")[0]  # after it is a URL for people who run Maven by hand


@contextmanager
def _alone() -> Iterator[None]:
    """Waits until no other process fetches for the same checkout."""
    JARS.mkdir(exist_ok=True)
    descriptor = os.open(JARS, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def main() -> int:
    """Fetches the named profiles, or all."""
    try:
        for profile in sys.argv[1:] or PROFILES:
            print(fetched(profile))
    except JarsError as error:
        print(f"strandline: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
