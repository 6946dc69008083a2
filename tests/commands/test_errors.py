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

from controller.cli import main
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


@pytest.mark.parametrize("words", [each for each in EACH if "orders" in each], ids=" ".join)
def test_an_unknown_stream_is_named_with_what_lists_them(
    served: Any, strandline: Callable[..., Any], words: tuple[str, ...]
) -> None:
    stream = served.stream()
    done = strandline(*(stream.upper() if word == "orders" else word for word in words))
    assert done.code == 1
    assert f"there is no stream '{stream.upper()}': `strandline streams` lists them" in done.err


def test_an_unknown_writer_is_named_with_what_lists_them(served: Any, strandline: Callable[..., Any]) -> None:
    stream = served.stream()
    done = strandline("exclude", stream, "wroker-1")
    assert done.code == 1
    assert f"stream '{stream}' has no writer 'wroker-1': `strandline writers {stream}` lists them" in done.err


def test_a_missing_token_is_explained_and_a_given_one_sent(outside: Callable[..., Any], denier: str) -> None:
    without = outside("streams", "--controller", denier)
    assert (without.code, without.err) == (
        1,
        "strandline streams: no token was given: give a token with --token-file, --token or STRANDLINE_TOKEN\n",
    )
    for done in (
        outside("streams", "--controller", denier, "--token", "sesame"),
        outside("streams", "--controller", denier, STRANDLINE_TOKEN="sesame"),
    ):
        assert done.code == 1
        assert f"is it a controller that listens at {denier}?" in done.err and "sesame" not in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("marks",), "Missing argument 'STREAM'"),
        (("marks", "a/b"), "a/b"),
        (("marks", "s", "--after", "-1"), "-1 is not in the range"),
        (("marks", "s", "--after", "²"), "'²' is not a valid integer"),
        (("marks", "s", "--key", "a b"), "a b"),
        (("writers", "s", "--state", "asleep"), "'asleep' is not one of 'joined', 'active'"),
        (("window", "s", "--position", "5"), "0=5,1=7"),
        (("window", "s", "--position", "0=5,0=6"), "names a segment twice"),
        (("window", "s", "--position", '{"0": '), "is no position"),
        (("window", "s", "--position", "0=-5"), "is no segment=offset"),
        (("streams", "--controller", "ftp://x"), "http://127.0.0.1:8433"),
        (("streams", "--controller", "http://user:secret@x"), "controller"),
        (("status",), "'overview' shows streams once"),
        (("wait", "s", "5", "--until", "5"), "Name the TIME that is waited for, once"),
        (("wait", "s", "--until", "1", "--timeout", "soon"), "'soon' is no duration"),
        (("marks", "s", "--folow"), "No such option '--folow'. Did you mean '--follow'?"),
        (("journal",), "--group"),
        (("jurnal", "s"), "No such command 'jurnal'. Did you mean 'journal'?"),
        (("upgrade",), "No such command 'upgrade'. Did you mean 'migrate', which brings"),
        ((), "Commands:"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_nonsense_is_a_mistake_in_the_command_line(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    code = main(words)
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert told in printed.err and "secret" not in printed.err


# -- with --json: one object in one line, whatever went wrong ----------------------------------------------------


def error_of(done: Any) -> dict[str, Any]:
    (line,) = done.err.splitlines()
    told: dict[str, Any] = json.loads(line)
    assert (done.out, told["exit_status"]) == ("", done.code)
    return told


def test_an_error_of_the_controller_has_its_code_its_fields_and_what_to_do(
    served: Any, strandline: Callable[..., Any]
) -> None:
    stream = served.stream()
    told = error_of(strandline("marks", stream.upper(), "--json"))
    assert (told["code"], told["stream"], told["command"]) == ("unknown_stream", stream.upper(), "marks")
    assert "lists them" in told["detail"] and told["exit_status"] == 1


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("streams", "--controller", "http://127.0.0.1:9"), "controller_away", "was not reached"),
        (("token", "list"), "command_failed", "there is no store"),
        (("marks", "orders", "--limt", "5"), "wrong_command_line", "--limt"),
        (("mraks",), "wrong_command_line", "mraks"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_every_kind_of_error_is_an_object_with_a_code(
    outside: Callable[..., Any], words: tuple[str, ...], code: str, told: str
) -> None:
    error = error_of(outside(*words, "--json"))
    assert error["code"] == code and told in error["detail"]


def test_the_variable_of_json_counts_for_errors_too(outside: Callable[..., Any]) -> None:
    assert error_of(outside("marks", "nothing-of-that-name", STRANDLINE_JSON="yes"))["code"] == "unknown_stream"
    assert outside("marks", "nothing-of-that-name").err.startswith("strandline marks: there is no stream")


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
