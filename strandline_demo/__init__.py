"""`strandline demo`: four writers, a controller and a Spark job that counts windows in two ways at once.

The modules, from the inside out: `settings`, `world` (who writes what when), `truth`, `table` and `picture` are
pure; `writing` and `job` are the processes of a writer and of Spark; `processes` and `leash` start and end them;
`running` is a run from end to end, `knobs` and `command` the command line.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the demo with these arguments (default: the process's own); returns its exit status."""
    from strandline_demo.command import main as command  # so that a writer's process does not load all of it

    return command(argv)
