"""The commands of `strandline`. Each module has HELP, `add_options(parser)` and `run(options)`.

A module imports only the standard library at its top, so that `--help` works, and is quick, in any installation.
"""

from typing import Final

COMMANDS: Final = (
    "serve",
    "demo",
    "migrate",
    "token",
    "backup",
    "restore",
    "rewind",
    "check",
    "create",
    "streams",
    "writers",
    "marks",
    "window",
    "position",
    "index",
    "watch",
    "journal",
    "tail",
    "exclude",
    "include",
    "completion",
)
