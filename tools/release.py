"""Makes a release as far as a program can: checks, tests and builds, then says what remains for people.

`python -m tools.release` begins with what costs nothing. If something is missing there, it lists all of that and ends.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tools.reference import stale
from tools.reference.contract import FILE as CONTRACT
from tools.reference.contract import broken

ROOT: Final = Path(__file__).resolve().parents[1]
RUN: Final = ("make check", "make test")

LEFT: Final = """
Of version {version}, these remain:

  1. Soak it where it can take a night: make soak KILLS=1000
  2. Read CHANGELOG.md once as a user who upgrades, and docs/how-to/upgrade.md beside it.
  3. git tag -a v{version} -m "Strandline {version}" && git push origin v{version}
  4. Upload the two files of dist, and publish the part of CHANGELOG.md about {version} with their SHA-256:
{sums}
  5. Put the pages where they are read: make site makes them, in .site/pages
  6. Try it on every Python: .venv/bin/python -m tools.try_wheel python3.11 python3.12 python3.13 python3.14
  7. On main: raise the version in pyproject.toml, deploy/compose and deploy/kubernetes, and begin its part of
     CHANGELOG.md with "unreleased".
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--check-only", action="store_true", help="neither test nor build")
    only_checks: bool = parser.parse_args().check_only
    logging.disable()  # what the controller of the reference's examples logs
    version = version_of(ROOT)
    if lines := [*missing(ROOT), *(f"{name} is stale: make reference" for name in stale())]:
        print(f"Version {version} cannot be released yet:", *lines, sep="\n  - ")
        return 1
    print(f"Nothing is missing for version {version}.")
    if only_checks:
        return 0
    for command in RUN:
        subprocess.run(command.split(), cwd=ROOT, check=True)
    print(LEFT.format(version=version, sums="\n".join(f"       {line}" for line in sums(built(ROOT)))))
    return 0


def version_of(root: Path) -> str:
    version: str = project_of(root)["version"]
    return version


def project_of(root: Path) -> dict[str, Any]:
    """What pyproject.toml says of the project."""
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return project


def missing(root: Path) -> Iterator[str]:
    """What a release of the version in pyproject.toml lacks, one line each."""
    version = version_of(root)
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        yield f"the version is {version}: a release has three numbers"
    if "Source" not in project_of(root).get("urls", {}):
        yield "pyproject.toml has no Source in [project.urls], the repository's address, for the links of README.md"
    if f"{version} is not released" in (root / "README.md").read_text():
        yield f"README.md says that {version} is not released"
    entry = re.search(r"^## \[([^\]]+)\] - (.*)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    if entry is None or entry[1] != version:
        yield f"CHANGELOG.md does not begin with {version}"
    elif not re.fullmatch(r"\d{4}-\d\d-\d\d", entry[2]):
        yield f"CHANGELOG.md has {entry[2]!r} where {version} has its date, such as 2026-01-31"
    for changed in git(root, "status", "--porcelain").splitlines():
        yield f"not committed: {changed[3:]}"
    if (branch := git(root, "branch", "--show-current").strip()) != "main":
        yield f"this is the branch {branch!r}: releases are made of main"
    tags = git(root, "tag", "--list", "v*", "--sort=-version:refname").split()
    if f"v{version}" in tags:
        yield f"v{version} was released already"
    elif tags:
        yield from since(root, tags[0])


def since(root: Path, tag: str) -> Iterator[str]:
    """What the contract of the HTTP API lacks, compared with that of an earlier release."""
    path = CONTRACT.relative_to(ROOT)
    before, now = json.loads(git(root, "show", f"{tag}:{path.as_posix()}")), json.loads((root / path).read_text())
    yield from (f"since {tag}: {line}" for line in broken(before, now))
    if before != now and before["info"]["version"] == now["info"]["version"]:
        yield f"the contract differs from that of {tag}: raise CONTRACT_VERSION in controller/http/openapi.py"


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def built(root: Path) -> list[Path]:
    """The wheel and the source distribution, built by the pinned tools into `dist`, which had nothing else."""
    for old in (root / "dist").glob("strandline-*"):
        old.unlink()
    subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist"], cwd=root, check=True)
    return sorted((root / "dist").glob("strandline-*"))


def sums(files: list[Path]) -> list[str]:
    return [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files]


if __name__ == "__main__":
    sys.exit(main())
