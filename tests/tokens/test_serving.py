"""`strandline serve` with tokens and TLS, and the clients of each kind before it."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controller.server import check_callers, check_certificate
from controller.settings import Settings
from controller.terminal import Failure
from reader_client import AsyncTimeWindows, ReaderGroup, TimeWindows
from spark_integration.options import StreamAccess
from spark_integration.window_calls import ControllerWindows
from strandline.client.credentials import find_token, trust
from strandline.client.http import Connection
from strandline.errors import ControllerAway, Forbidden, InvalidConfig, Unauthenticated
from tests.client.conftest import no_pause
from tests.readme.pages import Block, Stranger, blocks_of
from tests.served import OwnProcess, run_command
from tests.summary import skip_but_under_ci
from writer_client import AsyncWriter, Writer

pytestmark = pytest.mark.full

SETTINGS = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
KNOWN = (  # when the controller has looked for new tokens
    "curl --fail --retry 9 --retry-delay 1 --retry-all-errors --cacert server.pem --output known.json "
    '-H "Authorization: Bearer $(cat auditor.token)" https://localhost:8433/v1/streams'
)


class Certificate(NamedTuple):
    certificate: str
    key: str
    locked_key: str


class Guarded(NamedTuple):
    process: OwnProcess
    database: str
    certificate: str
    tokens: dict[str, str]


def openssl(*words: str) -> None:
    if shutil.which("openssl") is None:
        skip_but_under_ci("openssl, which makes certificates, is not installed", "apt-get install -y openssl (as root)")
    subprocess.run(["openssl", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A certificate of this machine, which is its own authority, and its key, once more with a password."""
    folder = tmp_path_factory.mktemp("certificate")
    made = Certificate(*(str(folder / name) for name in ("server.pem", "server.key", "locked.key")))
    openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
        *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
        *("-keyout", made.key, "-out", made.certificate),
    )
    openssl("ec", "-in", made.key, "-aes256", "-passout", "pass:sesame", "-out", made.locked_key)
    return made


def create(database: str, *words: str) -> str:
    done = run_command("token", "create", *words, "--database", database)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def guarded(certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A controller with TLS and tokens on every address of the machine, and a stream `orders`."""
    database = str(tmp_path_factory.mktemp("guarded") / "store.db")
    tokens = {"admin": create(database, "admin", "--role", "admin")}
    tokens |= {role: create(database, role, "--role", role, "--pattern", "orders") for role in ("writer", "reader")}
    process = OwnProcess(
        *(database, "--host", "0.0.0.0", "--ssl-certfile", certificate.certificate, "--ssl-keyfile", certificate.key),
        trusted=ssl.create_default_context(cafile=certificate.certificate),
    )
    process.url = process.url.replace("0.0.0.0", "127.0.0.1")
    process.client.base_url = process.url
    process.client.headers["Authorization"] = f"Bearer {tokens['admin']}"
    assert process.client.put("/v1/streams/orders", json=SETTINGS).status_code == 201
    yield Guarded(process, database, certificate.certificate, tokens)
    assert process.stop() == 0
    assert not any(token in process.errors for token in tokens.values())


# -- whom it serves ----------------------------------------------------------------------------------------------


def test_without_tokens_another_address_is_refused_with_what_to_run_and_served_with_one_also_when_that_was_revoked(
    tmp_path: Path, strandline: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(database=str(tmp_path / "store.db"), host="0.0.0.0")

    with pytest.raises(Failure, match=r"`strandline token create admin --role admin`.*--insecure"):
        check_callers(settings)
    check_callers(replace(settings, insecure=True))
    assert not (tmp_path / "store.db").exists()
    strandline("token", "create", "a", "--role", "admin")
    strandline("token", "revoke", "a")
    caplog.clear()
    check_callers(settings)
    assert "--ssl-certfile" in caplog.text  # what goes over the net unencrypted is told


# -- clients -----------------------------------------------------------------------------------------------------


def test_writers_and_readers_of_each_kind_come_in_with_their_tokens(guarded: Guarded, tmp_path: Path) -> None:
    url, ca_file, tokens = guarded.process.url, guarded.certificate, guarded.tokens
    (tmp_path / "writer.token").write_text(f"{tokens['writer']}\n")

    async def others() -> None:
        async with AsyncWriter(url, "orders", "w2", token=tokens["writer"], ca_file=ca_file) as writer:
            await writer.note_time(8, {"0": 8})
        async with AsyncTimeWindows(url, "orders", token=tokens["reader"], ca_file=ca_file) as windows:
            assert (await windows.get_time_window({"0": 8})).lower == 8

    token_file = str(tmp_path / "writer.token")
    with Writer(url, "orders", "w1", token_file=token_file, ca_file=ca_file, leaving="close") as writer:
        writer.note_time(7, {"0": 7})
        with TimeWindows(url, "orders", token=tokens["reader"], ca_file=ca_file) as windows:
            assert windows.get_time_window({"0": 7}).lower == 7
    asyncio.run(others())
    with ReaderGroup(url, "g", token=tokens["reader"], ca_file=ca_file) as group:
        assert group.create(["orders"])
    (tmp_path / "reader.token").write_text(tokens["reader"])
    file = str(tmp_path / "reader.token")
    of_spark = ControllerWindows(
        StreamAccess(controller=url, stream="orders", token_file=file, ca_file=ca_file, wait_ms=5_000)
    )
    assert of_spark.time_window({}).lower is None
    of_spark.close()


def test_who_has_the_wrong_token_or_none_hears_so_and_a_certificate_that_is_not_trusted_is_refused_at_once(
    guarded: Guarded,
) -> None:
    url, ca_file = guarded.process.url, guarded.certificate
    with TimeWindows(url, "orders", token=guarded.tokens["writer"], ca_file=ca_file) as windows:
        with pytest.raises(Forbidden, match="takes the role 'reader'") as refused:
            windows.get_time_window({})
        assert refused.value.needs == "reader"
    with TimeWindows(url, "orders", ca_file=ca_file) as windows, pytest.raises(Unauthenticated, match="no token"):
        windows.get_time_window({})
    connection = Connection(url, token="x", seams=no_pause())
    with connection, pytest.raises(ControllerAway, match="CERTIFICATE_VERIFY_FAILED"):
        TimeWindows(connection, "orders").get_time_window({})


def test_a_client_finds_token_and_certificates_in_arguments_then_in_the_environment(
    tmp_path: Path, certificate: Certificate
) -> None:
    (tmp_path / "token").write_text(" from-file \n")
    file = str(tmp_path / "token")
    both = {"STRANDLINE_TOKEN": "from-variable", "STRANDLINE_TOKEN_FILE": file}

    assert find_token("given", None, both) == "given"
    assert find_token(None, file, {"STRANDLINE_TOKEN": "from-variable"}) == "from-file"
    assert find_token(None, None, both) == "from-variable"
    assert find_token(None, None, {"STRANDLINE_TOKEN_FILE": file}) == "from-file"
    assert find_token(None, None, {}) is None
    assert trust(None, {}) is None
    assert trust(None, {"STRANDLINE_CA_FILE": certificate.certificate}) is not None


def test_the_page_about_tokens_and_tls_lets_in_whom_it_says(tmp_path: Path) -> None:
    known = Block("docs/how-to/tokens-and-tls.md", 0, "sh", KNOWN)
    with Stranger(tmp_path, replaced={"--host 0.0.0.0": "--host 127.0.0.1"}) as stranger:
        for block in blocks_of(known.page):
            if block.language == "python":
                stranger.do(known)  # whoever types needs longer for it than the controller
            stranger.do(block)


@pytest.mark.parametrize(
    ("token", "content", "told"),
    [
        ("a", "b", "left out where a token is given"),
        (None, None, "a file that can be read"),
        (None, "\n", "token_file cannot be .*this one is empty"),
        (None, "two words", "visible ASCII"),
        (None, "x" * 5_000, "holds a token and nothing else"),
    ],
)
def test_a_token_that_cannot_be_found_or_sent_is_refused_untold(
    tmp_path: Path, token: str | None, content: str | None, told: str
) -> None:
    if content is not None:
        (tmp_path / "token").write_text(content)
    with pytest.raises(InvalidConfig, match=told) as raised:
        find_token(token, str(tmp_path / "token"), {})
    assert "two words" not in str(raised.value)


def test_a_file_without_certificates_and_a_number_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    for name in ("ca.pem", "none.pem"):
        with pytest.raises(InvalidConfig, match="certificates in PEM form"):
            Connection("https://127.0.0.1:1", ca_file=str(tmp_path / name))
    for setting in ("token", "token_file", "ca_file"):
        with pytest.raises(InvalidConfig, match=f"{setting} cannot be"):
            Connection("https://127.0.0.1:1", **{setting: 5})  # type: ignore[arg-type]  # that is the point


# -- commands ----------------------------------------------------------------------------------------------------


def command(guarded: Guarded, *words: str, **given: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STRANDLINE_")}
    return run_command(*words, environment={**kept, "STRANDLINE_CONTROLLER": guarded.process.url, **given})


def test_a_command_says_how_to_be_let_in_and_how_to_trust(guarded: Guarded) -> None:
    trusting = {"SSL_CERT_FILE": guarded.certificate}

    without = command(guarded, "streams", **trusting)
    assert without.returncode == 1 and "no token was shown: give a token with --token-file" in without.stderr
    distrusting = command(guarded, "streams", "--token", "slt_" + "x" * 43)
    assert distrusting.returncode == 1 and "--ca-file" in distrusting.stderr and "xxx" not in distrusting.stderr
    reader = command(guarded, "streams", "--json", STRANDLINE_TOKEN=guarded.tokens["reader"], **trusting)
    assert reader.returncode == 0 and '"orders"' in reader.stdout and "stalled" not in reader.stdout


# -- certificates that cannot be served --------------------------------------------------------------------------


def test_a_certificate_that_cannot_be_used_is_named(certificate: Certificate, tmp_path: Path) -> None:
    def check(certfile: str | None, keyfile: str | None = None, password: str | None = None) -> None:
        check_certificate(Settings(ssl_certfile=certfile, ssl_keyfile=keyfile, ssl_keyfile_password=password))

    check(None)
    check(certificate.certificate, certificate.key)
    check(certificate.certificate, certificate.locked_key, "sesame")
    (tmp_path / "empty.pem").write_text("")
    for certfile, keyfile, password in (
        (str(tmp_path / "none.pem"), None, None),
        (str(tmp_path / "empty.pem"), None, None),
        (certificate.certificate, None, None),  # without its key
        (certificate.certificate, certificate.locked_key, "wrong"),
        (certificate.certificate, certificate.locked_key, None),
    ):
        with pytest.raises(Failure, match="cannot be used for TLS") as raised:
            check(certfile, keyfile, password)
        assert "wrong" not in str(raised.value)
    with pytest.raises(Failure, match="--ssl-certfile"):
        check(None, certificate.key)
