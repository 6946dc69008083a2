"""A setting is declared in one place, and is then in every body, answer, page and form."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import pytest

from controller.dashboard.actions import FORM, changed
from controller.http.bodies import SettingsBody, StreamBody, settings_body
from strandline.core.config import SETTINGS, Says, StreamConfig, settings_of
from strandline.errors import InvalidConfig
from strandline.wire.streams import StreamReply, settings_by_name
from tools.reference.settings import options


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    grace_ms: Annotated[int | None, Says("how long", least=5, most=9)] = None
    colour: Annotated[Colour, Says("which one", stays=True)] = Colour.RED


def test_a_setting_that_is_declared_is_in_the_body_and_its_schema() -> None:
    settings = settings_of(Declared)
    assert settings["grace_ms"].or_null and settings["colour"].choices is Colour
    body = settings_body("DeclaredBody", "Made here.", settings.values())
    (_,), found = msgspec.json.schema_components([body], ref_template="{name}")
    assert found["DeclaredBody"]["properties"] == {
        "grace_ms": {"type": ["integer", "null"], "minimum": 5, "maximum": 9},
        "colour": {"enum": ["red", "blue"]},
    }
    assert msgspec.json.decode(b'{"grace_ms": 7}', type=body) == body(grace_ms=7)
    with pytest.raises(msgspec.ValidationError, match="grace"):
        msgspec.json.decode(b'{"grace": 7}', type=body)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_of_a_stream_is_wherever_settings_are(name: str) -> None:
    stays = SETTINGS[name].says.stays
    assert name in StreamBody.__struct_fields__ and name in StreamReply.__struct_fields__
    assert (name in SettingsBody.__struct_fields__) is not stays
    assert (SETTINGS[name] in FORM) is not stays
    assert name in settings_by_name(StreamConfig())
    assert f"| `{name}` |" in options()


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_checked_as_it_is_declared(name: str) -> None:
    def made(value: Any) -> StreamConfig:
        return StreamConfig(**{name: value})

    setting = SETTINGS[name]
    for value in ("violet", 1.5, *(() if setting.or_null else (None,))):
        with pytest.raises(InvalidConfig, match=name):
            made(value)
    if setting.choices is None:
        made(setting.says.least)
        with pytest.raises(InvalidConfig, match=name):
            made(setting.says.least - 1)


def test_the_form_gives_what_was_changed() -> None:
    config = StreamConfig()
    same = {setting.name: getattr(config, setting.name) for setting in FORM} | {"late_writers": "hold"}
    assert changed(config, same) == {}
    assert changed(config, same | {"late_writers": "skip", "min_writers": 2.0}) == {
        "late_writers": "skip",
        "min_writers": 2,
    }
