"""The application under uvicorn as it comes, without the command that serves it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from controller.http.browser_gate import BrowserGate
from controller.settings import Settings
from strandline.errors import InvalidConfig, Unauthenticated
from tests.served import ROOT

HEADERS = [(b"host", b"a.example")]
NOTE = {"writer": "w", "time": 1, "position": {"0": 1}}


@pytest.mark.parametrize("http", ["httptools", "h11"])
def test_an_unmodified_uvicorn_serves_the_same_application(tmp_path: Path, http: str) -> None:
    variables = {**os.environ, "STRANDLINE_DATABASE": str(tmp_path / "store.db"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "uvicorn", "--factory", "controller.app:create_app"]
    with subprocess.Popen(
        [*command, "--port", "0", "--http", http], env=variables, cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            url = next(found[0] for line in process.stderr if (found := re.search(r"http://\S+", line)))
            with httpx.Client(base_url=url) as client:
                client.put("/v1/streams/s", json={"segments": 1, "max_ahead_ms": None}).raise_for_status()
                answer = client.post("/v1/streams/s/notes", json=NOTE)
                assert (answer.status_code, answer.json()["late"]) == (200, False)
                assert client.post("/v1/streams/none/notes", json=NOTE).json()["code"] == "unknown_stream"
        finally:
            process.terminate()
            process.communicate()


def test_the_environment_has_the_settings_that_the_command_takes() -> None:
    given = {
        "STRANDLINE_DATABASE": "a.db", "STRANDLINE_PORT": "1", "STRANDLINE_INSECURE": "true",
        "STRANDLINE_ALLOWED_HOST": "a.example, b.example", "STRANDLINE_NONE": "x",
    }  # fmt: skip

    assert Settings.from_environment(given) == Settings(
        database="a.db", port=1, insecure=True, allowed_hosts=("a.example", "b.example")
    )


@pytest.mark.parametrize("given", [{"STRANDLINE_PORT": "-1"}, {"STRANDLINE_INSECURE": "perhaps"}])
def test_a_setting_that_cannot_be_is_named(given: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig, match=next(iter(given))):
        Settings.from_environment(given)


def test_without_tokens_nobody_beyond_this_machine_is_served() -> None:
    scope = {"type": "http", "method": "GET", "path": "/v1/streams", "server": ("192.0.2.5", 80), "headers": HEADERS}

    with pytest.raises(Unauthenticated):
        BrowserGate((), "127.0.0.1").check(scope, dict(HEADERS), tokens_required=False)
    BrowserGate(("a.example",), "127.0.0.1", insecure=True).check(scope, dict(HEADERS), tokens_required=False)
    BrowserGate(("a.example",), "127.0.0.1").check(scope, dict(HEADERS), tokens_required=True)
