"""Calls are passed on over TLS, to whom the controller trusts."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tests.forwarding.conftest import STREAM, Cluster, Make, note
from tests.tokens.test_serving import openssl

pytestmark = pytest.mark.full


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """A certificate for this machine, and its key."""
    files = str(tmp_path / "server.pem"), str(tmp_path / "server.key")
    made = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost")
    openssl(*made, "-addext", "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout", files[1])
    return files


def test_an_owner_with_a_trusted_certificate_gets_calls(
    cluster: Cluster, make: Make, certificate: tuple[str, str]
) -> None:
    trusted = ssl.create_default_context(cafile=certificate[0])
    first, second, stranger = (make(id_, certificate=certificate, peer_tls=trusted) for id_ in (1, 2, 3))
    cluster.give("s", 2)
    assert second.ask("PUT", "/v1/streams/s", STREAM).status_code == 201
    assert first.ask("POST", "/v1/streams/s/notes", note(1)).status_code == 200
    assert stranger.ask("GET", "/v1/streams/s/marks").json()["marks"][0]["time"] == 1


def test_nothing_is_sent_to_an_owner_without_trust(
    cluster: Cluster, make: Make, certificate: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    first = make(1)
    make(2, certificate=certificate, peer_tls=ssl.create_default_context(cafile=certificate[0]))
    cluster.give("s", 2)
    refused = first.ask("POST", "/v1/streams/s/notes", note(1))
    assert (refused.status_code, refused.json()["code"]) == (503, "not_owner")
    assert "certificate" in refused.json()["reason"]
    (told,) = (record for record in caplog.records if record.message == "peer_not_reached")
    assert (
        told.__dict__["fields"]["address"].startswith("https://") and "certificate" in told.__dict__["fields"]["reason"]
    )
