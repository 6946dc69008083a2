"""The licences of all packages that are pinned, as the installed packages state them.

    .venv/bin/python -m tools.licences

`.venv` has most of them. `make lowest` and `make site` have environments of their own, which few checkouts have: this
makes them, and writes the licences of what only they install to tools/requirements/licences.json, as `make lock` does.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from tools.environment import OF_THE_WORKSHOP, OF_THEIR_OWN, SetupError, say, separate

ROOT: Final = Path(__file__).resolve().parents[1]
RECORD: Final = ROOT / "tools" / "requirements" / "licences.json"

# What other spellings in the packages' own descriptions are in SPDX.
SPDX: Final = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "BSD License": "BSD",
    "GNU General Public License (GPL)": "GPL",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only",
    "MIT Licence": "MIT",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "License :: Public Domain": "public domain",
    "Python Software Foundation License": "PSF-2.0",
}

_PIN: Final = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+) \\$", re.MULTILINE)


def main() -> int:
    try:
        record = {name: _stated(name) for name in OF_THEIR_OWN}
    except (SetupError, OSError) as error:
        print(f"strandline: {error}", file=sys.stderr)
        return 1
    RECORD.write_text(json.dumps(record, indent=2) + "\n")
    say(f"strandline: wrote {RECORD.relative_to(ROOT)}; make reference puts it on its page")
    return 0


def _stated(name: str) -> dict[str, str]:
    """The licences of what only one environment of its own has, which is made for that."""
    with separate(name) as python:
        licences = licences_in(python.parent.parent)
    return {f"{package}=={version}": licences[package] for package, version in sorted(pinned_only_by(name).items())}


def licences_in(environment: Path) -> dict[str, str]:
    """The licence of each package that a virtual environment has."""
    packages = [str(folder) for folder in environment.glob("lib/python*/site-packages")]
    return {canonicalize_name(each.name): licence_of(each) for each in distributions(path=packages)}


def licence_of(package: Distribution) -> str:
    """The licence as the installed package states it: as an expression, in a few words, by classifiers, or as the title
    of its licence."""
    metadata = package.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    words: str = metadata.get_all("License", [""])[0]
    if words not in ("", "UNKNOWN") and len(words) < 40 and "\n" not in words:
        return SPDX.get(words, words)
    files = metadata.get_all("License-File", [])
    beginning = "License :: OSI Approved :: "
    classified = [
        each.removeprefix(beginning) for each in metadata.get_all("Classifier", []) if each.startswith("License")
    ]
    titles = [(package.read_text(f"licenses/{file}") or "").partition("\n")[0] for file in files]
    return " or ".join(SPDX.get(each, each) for each in classified or titles)


@cache
def pinned(*names: str) -> dict[str, str]:
    """The version of each package that these files of tools/requirements/ pin: those of `.venv` unless named."""
    files = [ROOT / "tools" / "requirements" / f"{name}.txt" for name in names or OF_THE_WORKSHOP]
    return dict(found for file in files for found in _PIN.findall(file.read_text()))


def pinned_only_by(name: str) -> dict[str, str]:
    """The version of each package that an environment of its own has, and `.venv` has not in this version."""
    return dict(pinned(*OF_THEIR_OWN[name]).items() - pinned().items())


@cache
def recorded() -> dict[str, dict[str, str]]:
    """The licences that were written for each environment of its own, by package and version."""
    record: dict[str, dict[str, str]] = json.loads(RECORD.read_text())
    return record


if __name__ == "__main__":
    sys.exit(main())
