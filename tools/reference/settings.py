"""All settings: of a stream, a reader group, Spark's source, and the environment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Final

from spark_integration.options import OPTIONS
from strandline.core.config import StreamConfig
from strandline.wire.groups import GroupSettings, settings_of_group
from tools.reference.text import code, commented, number, page, table, wrapped

COLUMNS: Final = ("option", "default", "meaning")


def options() -> str:
    """All settings, in one table for each thing that has settings."""
    introduction = (
        "All settings, with their names and defaults in the HTTP API. Calls that take a setting are in "
        "[http.md](http.md)."
    )
    return page(
        "Options",
        introduction,
        [
            _part(
                "A stream",
                "Given when it is created (`PUT /v1/streams/{stream}`), and changed one by one (`PATCH`).",
                _rows(
                    "strandline.core.config",
                    "StreamConfig",
                    {field.name: field.default for field in fields(StreamConfig)},
                ),
            ),
            _part(
                "A reader group",
                "Given when it is created (`PUT /v1/reader-groups/{group}`).",
                [
                    *_rows("strandline.wire.groups", "GroupOptions", _defaults_of_group()),
                    *_rows("strandline.wire.groups", "GroupSettings", _defaults_of_group()),
                ],
            ),
            "## Spark's source\n\n"
            + wrapped("[spark.md](../spark.md) describes their use.")
            + "\n\n"
            + table(("option", "meaning"), ((code(name), meaning) for name, meaning in OPTIONS.items())),
            "## Environment variables\n\n"
            + wrapped(
                "Each option of a command has one, which its `--help` names. `STRANDLINE_TOKEN`, "
                "`STRANDLINE_TOKEN_FILE` and `STRANDLINE_CA_FILE` apply to any program that writes or reads, "
                "including Spark's driver; `SSL_CERT_FILE` applies there, too."
            ),
        ],
    )


def _part(title: str, about: str, rows: Iterable[tuple[str, str, str]]) -> str:
    return f"## {title}\n\n{wrapped(about)}\n\n{table(COLUMNS, rows)}"


def _rows(module: str, name: str, defaults: dict[str, object]) -> Iterable[tuple[str, str, str]]:
    for field, meaning in commented(module, name):
        yield code(field), _shown(defaults[field]) if field in defaults else "needed", meaning


def _defaults_of_group() -> dict[str, object]:
    defaults = settings_of_group(GroupSettings(streams=()))
    return {name: default for name, default in defaults.items() if name != "streams"}


def _shown(value: object) -> str:
    return "null" if value is None else number(value) if isinstance(value, int) else code(str(value))
