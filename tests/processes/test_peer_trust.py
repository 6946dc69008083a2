"""Controllers that reach each other over TLS trust the certificates that `--peer-ca-file` names."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from controller.server import check_name, peer_trust
from controller.settings import Settings
from controller.terminal import Failure
from tests.processes.test_processes import STREAM, controllers
from tests.served import OwnProcess
from tests.tokens.test_serving import openssl


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """A certificate for this machine, and its key."""
    files = str(tmp_path / "server.pem"), str(tmp_path / "server.key")
    made = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost")
    openssl(*made, "-addext", "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout", files[1])
    return files


@contextmanager
def two(url: str, certificate: tuple[str, str], *options: str) -> Iterator[OwnProcess]:
    """Two controllers whose addresses have https."""
    serving = ("--processes", "2", "--name", "host", "--address", "https://127.0.0.1")
    with_tls = ("--ssl-certfile", certificate[0], "--ssl-keyfile", certificate[1])
    trusted = ssl.create_default_context(cafile=certificate[0])
    process = OwnProcess(url, *serving, *with_tls, *options, trusted=trusted)
    try:
        yield process
    finally:
        process.stop()


def asked_of_each(url: str, trusted: str) -> list[httpx.Response]:
    """A call for one stream, made at the address of each controller: one of them passes it on."""
    verify = ssl.create_default_context(cafile=trusted)
    addresses = controllers(url).values()
    assert all(address.startswith("https://127.0.0.1:") for address in addresses)
    return [httpx.put(f"{address}/v1/streams/s", json=STREAM, verify=verify, timeout=30) for address in addresses]


def test_calls_are_passed_on_to_a_controller_with_a_trusted_certificate(
    postgres_url: str, certificate: tuple[str, str]
) -> None:
    with two(postgres_url, certificate, "--peer-ca-file", certificate[0]):
        answers = asked_of_each(postgres_url, certificate[0])
    assert sorted(answer.status_code for answer in answers) == [200, 201]


def test_a_controller_that_is_not_trusted_gets_no_call(postgres_url: str, certificate: tuple[str, str]) -> None:
    with two(postgres_url, certificate) as process:
        answers = asked_of_each(postgres_url, certificate[0])
    (refused,) = (answer.json() for answer in answers if not answer.is_success)
    assert (refused["status"], refused["code"]) == (503, "not_owner")
    assert "CERTIFICATE_VERIFY_FAILED" in refused["reason"]
    assert "peer_not_reached" in process.log


def test_a_file_that_has_no_certificate_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").touch()
    (tmp_path / "other.pem").write_text("something else")
    for name in ("empty.pem", "other.pem", "missing.pem", "."):
        path = str(tmp_path / name)
        with pytest.raises(Failure, match=f"{path} cannot be used .*: --peer-ca-file"):
            peer_trust(Settings(name="a", peer_ca_file=path))


def test_trust_in_peers_needs_a_name() -> None:
    with pytest.raises(Failure, match="--peer-ca-file is for a controller that serves together with others"):
        check_name(Settings(peer_ca_file="ca.pem"))
