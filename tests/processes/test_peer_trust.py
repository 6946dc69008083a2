"""`--peer-ca-file`: a file that cannot be used is refused at the start. That it is trusted: test_processes.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.server import check_name, peer_trust
from controller.settings import Settings
from controller.terminal import Failure


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
