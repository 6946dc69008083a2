"""A setting of a stream or a reader group is declared in one place, for bodies, answers, pages and forms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature

import pytest

from controller.dashboard.fields import FORM
from controller.http.bodies import GroupBody, GroupChangesBody, SettingsBody, StreamBody
from reader_client import AsyncReaderGroup, ReaderGroup
from reader_client.groups import CHANGEABLE
from strandline.core.config import SETTINGS, Setting, StreamConfig
from strandline.errors import InvalidConfig
from strandline.wire.groups import GROUP_SETTINGS, GroupDescription, GroupSettings, settings_of_group
from strandline.wire.streams import StreamReply, settings_by_name
from tools.reference.settings import options


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_of_a_stream_is_wherever_settings_are(name: str) -> None:
    stays = SETTINGS[name].says.stays
    assert name in StreamBody.__struct_fields__ and name in StreamReply.__struct_fields__
    assert (name in SettingsBody.__struct_fields__) is not stays
    assert (SETTINGS[name] in FORM) is not stays
    assert name in settings_by_name(StreamConfig())
    assert f"| `{name}` |" in options()


@pytest.mark.parametrize("name", GROUP_SETTINGS)
def test_a_setting_of_a_group_is_wherever_settings_are(name: str) -> None:
    for shape in (GroupBody, GroupChangesBody, GroupDescription):
        assert name in shape.__struct_fields__
    assert name in settings_of_group(GroupSettings(streams=("s",)))
    assert name in CHANGEABLE
    assert f"| `{name}` |" in options()
    for create in (ReaderGroup.create, AsyncReaderGroup.create):
        assert name in signature(create).parameters


@pytest.mark.parametrize(
    ("setting", "made"),
    [
        *[(each, StreamConfig) for each in SETTINGS.values()],
        *[(each, partial(GroupSettings, streams=("s",))) for each in GROUP_SETTINGS.values()],
    ],
)
def test_a_setting_is_checked_as_it_is_declared(setting: Setting, made: Callable[..., object]) -> None:
    name = setting.name
    for value in ("violet", 1.5, *(() if setting.or_null else (None,))):
        with pytest.raises(InvalidConfig, match=name):
            made(**{name: value})
    if setting.choices is None:
        made(**{name: setting.says.least})
        with pytest.raises(InvalidConfig, match=name):
            made(**{name: setting.says.least - 1})
