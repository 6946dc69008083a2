"""A Python for Spark to start that imports pyspark from where it is installed, and not from Spark's archives.

Spark puts its own zip archives and a jar at the head of PYTHONPATH. A Python that it starts compiles all that it
imports from them again, and reads their lists of files again and again. Where pyspark is installed this is for nothing,
and more than half of what a start takes; a query starts several Pythons.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

_SCRIPT = """\
#!/bin/sh
set -f
IFS=:
kept=
for each in ${{PYTHONPATH-}}; do
    case $each in
        */pyspark.zip | */py4j-*.zip | *.jar) ;;
        *) kept=${{kept:+$kept:}}$each ;;
    esac
done
PYTHONPATH=$kept
export PYTHONPATH
exec {python} "$@"
"""


def spark_python(folder: Path, python: str | Path | None = None) -> str:
    """Leaves a program in a folder, for PYSPARK_PYTHON: starts `python`, by default the one that Spark would start."""
    started = str(python or os.environ.get("PYSPARK_PYTHON") or sys.executable)
    program = folder / "python"
    program.write_text(_SCRIPT.format(python=shlex.quote(started)))
    program.chmod(0o755)
    return str(program)
