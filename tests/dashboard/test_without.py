"""A controller without the library of the pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from controller.cli import main
from tests.served import ROOT

# What Python says of a package that is not installed.
NOT_INSTALLED = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "jinja2":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Nothing())
from controller.cli import main
sys.exit(main())
"""


@pytest.mark.full
def test_it_says_how_to_get_the_pages_and_serves_everything_else(tmp_path: Path) -> None:
    command = [sys.executable, "-c", NOT_INSTALLED, "serve", "--database", str(tmp_path / "store.db"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(ROOT)}) as process:
        assert process.stdout is not None
        url = process.stdout.readline().rpartition(" ")[2].strip()
        answer, status = httpx.get(url), httpx.get(f"{url}/v1/status")
        process.terminate()
    assert answer.status_code == 200 and "pip install '.[dashboard]'" in answer.text
    assert status.status_code == 200


@pytest.mark.parametrize("url", ["grafana.test/d/s", "javascript:alert(1)", "https://grafana.test/{name}"])
def test_what_is_no_address_of_a_dashboard_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--grafana-url", url]) == 2
    assert "is no address of a dashboard: give one such as https://" in capsys.readouterr().err
