from __future__ import annotations

from pathlib import Path

import pytest

from controller.cli import main
from tests.served import OwnProcess

pytestmark = pytest.mark.full


def test_the_page_of_a_stream_leads_to_its_dashboard_in_grafana(tmp_path: Path) -> None:
    process = OwnProcess(tmp_path / "store.db", "--grafana-url", "https://grafana.test/d/s?var-stream={stream}")
    try:
        assert process.client.put("/v1/streams/orders", json={"segments": 1}).is_success
        assert "https://grafana.test/d/s?var-stream=orders" in process.client.get("/streams/orders").text
    finally:
        process.stop()


@pytest.mark.parametrize("url", ["grafana.test/d/s", "javascript:alert(1)", "https://grafana.test/{name}"])
def test_what_is_no_address_of_a_dashboard_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--grafana-url", url]) == 2
    assert "is no address of a dashboard: give one such as https://" in capsys.readouterr().err
