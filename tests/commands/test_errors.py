"""What commands say, and leave with, where they cannot do what they were asked."""

from __future__ import annotations

import http.server
import json
import shlex
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controller.terminal import remark
from strandline.errors import UnknownPath
from tests.commands.conftest import STRANDLINE, environment


@pytest.fixture
def nobody() -> Iterator[str]:
    """The address of a port that is taken, and at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


class Denier(http.server.BaseHTTPRequestHandler):
    """Asks for the token that it wants, and is no controller where it gets it."""

    def do_GET(self) -> None:
        known = self.headers["Authorization"] == "Bearer sesame"
        body = b"hello" if known else b'{"code": "unauthenticated", "reason": "no token was given"}'
        self.send_response(200 if known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def denier() -> Iterator[str]:
    """The address of a server that is no controller, and wants a token."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Denier) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


EACH = [
    ("streams",),
    ("marks", "orders"),
    ("exclude", "orders", "w1"),
    ("wait", "orders", "--until", "1"),
    ("watch", "orders"),
]


@pytest.mark.parametrize("words", EACH, ids=" ".join)
def test_an_unreachable_controller_is_named_with_the_start_command(
    strandline: Callable[..., Any], nobody: str, words: tuple[str, ...]
) -> None:
    done = strandline(*words, "--controller", nobody)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"strandline {words[0]}: the controller at {nobody} was not reached")
    assert "strandline serve" in done.err and "STRANDLINE_CONTROLLER" in done.err


def test_a_missing_token_is_explained_and_a_given_one_sent(
    strandline: Callable[..., Any], denier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = strandline("streams", "--controller", denier)
    assert (without.code, without.err) == (
        1,
        "strandline streams: no token was given: give a token with --token-file, --token or STRANDLINE_TOKEN\n",
    )
    for variable, words in ((None, ("--token", "sesame")), ("sesame", ())):
        if variable is not None:
            monkeypatch.setenv("STRANDLINE_TOKEN", variable)
        done = strandline("streams", "--controller", denier, *words)
        assert done.code == 1
        assert f"is it a controller that listens at {denier}?" in done.err and "sesame" not in done.err


def test_the_variable_of_json_counts_for_errors_too(
    strandline: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert strandline("marks", "nothing-of-that-name").err.startswith("strandline marks: there is no stream")
    monkeypatch.setenv("STRANDLINE_JSON", "yes")
    told = json.loads(strandline("marks", "nothing-of-that-name").err)
    assert (told["code"], told["exit_status"]) == ("unknown_stream", 1)


def test_an_address_with_the_apis_path_is_told_to_leave_it_out() -> None:
    assert "leave /v1 out of the controller's address" in str(UnknownPath(path="/v1/v1/streams/orders"))


@pytest.mark.parametrize(("name", "code"), [(None, 0), ("nowhere", 1)])
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_a_command_whose_output_is_closed_does_its_work(served: Any, name: str | None, code: int, closed: str) -> None:
    words = (*STRANDLINE, "streams", name or served.stream(), "--controller", served.url)
    command = f"{shlex.join(words)} {closed}"
    done = subprocess.run(command, shell=True, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)


def test_a_terminal_without_a_character_shows_its_escape(served: Any) -> None:
    stream = served.stream()
    words = (*STRANDLINE, "streams", stream, "--controller", served.url)
    done = subprocess.run(words, env=environment(PYTHONIOENCODING="ascii"), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u2013" in done.stdout


def test_no_line_on_standard_error_has_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    remark("waiting: postgresql://anna:sesame@db/strandline is away; the token was slt_Zm9vYmFyZm9vYmFy")
    said = capsys.readouterr().err
    assert said.startswith("waiting: postgresql://anna:…@db/strandline") and "sesame" not in said and "Zm9v" not in said
