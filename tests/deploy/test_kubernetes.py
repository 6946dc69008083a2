"""The manifests keep the schemas of Kubernetes and fit the product and each other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from controller.app import create_app
from controller.limits import DEFAULT_LIMITS
from controller.settings import PORT_DEFAULT, START_DEADLINE_S, Settings
from tests.deploy.deployed import KUBERNETES, PROJECT, ROOT, check_command, manifest, variables

pytestmark = pytest.mark.full

OLDEST, NEWEST = "1.25", "1.37"
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def pods() -> list[Any]:
    return [manifest("deployment")["spec"]["template"]["spec"], manifest("tools")["spec"]]


def controller() -> Any:
    """The container of the controller's pod."""
    (container,) = manifest("deployment")["spec"]["template"]["spec"]["containers"]
    return container


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("file", KUBERNETES, ids=lambda file: file.stem)
def test_a_manifest_keeps_the_schema_of_kubernetes(file: Path, version: str) -> None:
    assert kubernetes_validate.validate(yaml.safe_load(file.read_text()), version, strict=True) == version


def test_service_and_budget_select_the_controller_and_no_tools() -> None:
    spec = manifest("deployment")["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    assert manifest("service")["spec"]["selector"] == labels
    assert manifest("disruption-budget")["spec"]["selector"]["matchLabels"] == labels
    (spread,) = spec["template"]["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels
    assert manifest("tools")["metadata"]["labels"] != labels


def test_probes_ask_where_the_application_answers_and_wait_for_it() -> None:
    paths = create_app(Settings()).openapi()["paths"]
    container = controller()
    for name in PROBES:
        probe = container[name]
        assert probe["httpGet"]["path"] in paths
        assert probe["httpGet"]["port"] == "http"
        assert probe["timeoutSeconds"] > DEFAULT_LIMITS.ready_s
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    start = container["startupProbe"]
    assert start["periodSeconds"] * start["failureThreshold"] > START_DEADLINE_S


def test_kubernetes_waits_longer_than_the_controller_takes_to_end() -> None:
    assert pods()[0]["terminationGracePeriodSeconds"] > DEFAULT_LIMITS.drain_s


def test_variables_and_arguments_are_known_to_the_command() -> None:
    container = controller()
    check_command(container["args"])
    assert {each["name"] for each in container["env"]} <= variables("serve")
    (tools,) = manifest("tools")["spec"]["containers"]
    assert {each["name"] for each in tools["env"]} <= variables("migrate")


def test_images_are_of_this_version_and_users_of_the_container() -> None:
    for pod in pods():
        assert pod["containers"][0]["image"] == f"strandline:{PROJECT['version']}"
        user = pod["securityContext"]["runAsUser"]
        assert f"useradd --system --uid {user} " in (ROOT / "deploy" / "container" / "Containerfile").read_text()


def test_variables_that_kubernetes_would_set_are_switched_off() -> None:
    variable = f"{manifest('service')['metadata']['name'].upper()}_PORT"
    assert variable in variables("serve")
    done = subprocess.run(
        [sys.executable, "-m", "controller", "serve"],
        env={**os.environ, variable: f"tcp://127.0.0.1:{PORT_DEFAULT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and variable in done.stderr
    assert [pod["enableServiceLinks"] for pod in pods()] == [False, False]
