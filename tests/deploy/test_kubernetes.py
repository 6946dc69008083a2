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
from controller.cluster.cluster_view import QUIET_MEMBERSHIP_MS
from controller.limits import DEFAULT_LIMITS
from controller.server import check_name
from controller.settings import PORT_DEFAULT, START_DEADLINE_S, Settings
from tests.deploy.deployed import KUBERNETES, PROJECT, ROOT, check_command, manifest, variables

pytestmark = pytest.mark.full

OLDEST, NEWEST = "1.25", "1.37"
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


SETS = ("deployment", "statefulset")  # of controllers: one, or several


def pods() -> list[Any]:
    return [*(manifest(each)["spec"]["template"]["spec"] for each in SETS), manifest("tools")["spec"]]


def controllers() -> list[Any]:
    """The container of each set's pod."""
    found = [manifest(each)["spec"]["template"]["spec"]["containers"] for each in SETS]
    assert [len(containers) for containers in found] == [1, 1]
    return [container for (container,) in found]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("file", KUBERNETES, ids=lambda file: file.stem)
def test_a_manifest_keeps_the_schema_of_kubernetes(file: Path, version: str) -> None:
    assert kubernetes_validate.validate(yaml.safe_load(file.read_text()), version, strict=True) == version


def test_a_field_that_kubernetes_does_not_know_is_found() -> None:
    wrong = manifest("deployment")
    wrong["spec"]["template"]["spec"]["terminationGraceSeconds"] = 30
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, NEWEST, strict=True)


def test_one_controller_ends_before_the_next_begins() -> None:
    spec = manifest("deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert manifest("disruption-budget")["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize("name", SETS)
def test_service_and_budget_select_the_controllers_and_no_tools(name: str) -> None:
    spec = manifest(name)["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels
    assert manifest("service")["spec"]["selector"] == manifest("peers")["spec"]["selector"] == labels
    assert manifest("disruption-budget")["spec"]["selector"]["matchLabels"] == labels
    assert manifest("tools")["metadata"]["labels"] != labels


def test_several_controllers_differ_from_one_only_where_they_have_to() -> None:
    one, several = (manifest(each)["spec"]["template"]["spec"] for each in SETS)
    (container,) = several["containers"]
    added = {"STRANDLINE_NAME", "STRANDLINE_ADDRESS"}
    container["env"] = [each for each in container["env"] if each["name"] not in added]
    del container["lifecycle"], several["affinity"]
    several["terminationGracePeriodSeconds"] = one["terminationGracePeriodSeconds"]
    assert several == one


def test_each_controller_has_its_pods_name_and_an_address_that_it_answers_to() -> None:
    several = manifest("statefulset")
    given = {each["name"]: each for each in controllers()[1]["env"]}
    assert given["STRANDLINE_NAME"]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    peers = manifest("peers")
    assert several["spec"]["serviceName"] == peers["metadata"]["name"]
    assert (peers["spec"]["clusterIP"], peers["spec"]["publishNotReadyAddresses"]) == ("None", True)
    pod = f"{several['metadata']['name']}-0"
    address = given["STRANDLINE_ADDRESS"]["value"].replace("$(STRANDLINE_NAME)", pod)
    assert address == f"http://{pod}.{peers['metadata']['name']}:{PORT_DEFAULT}"
    check_name(Settings(name=pod, address=address))
    assert list(given).index("STRANDLINE_NAME") < list(given).index("STRANDLINE_ADDRESS")  # which has it in its value


def test_several_controllers_are_spread_and_replaced_one_by_one() -> None:
    spec = manifest("statefulset")["spec"]
    assert spec["replicas"] > 2 and spec["podManagementPolicy"] == "Parallel"
    assert "updateStrategy" not in spec  # the default is one by one
    assert spec["minReadySeconds"] * 1000 > QUIET_MEMBERSHIP_MS
    ((term,),) = spec["template"]["spec"]["affinity"]["podAntiAffinity"].values()
    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert term["podAffinityTerm"]["labelSelector"] == spec["selector"]


def test_ports_are_the_products() -> None:
    for container in controllers():
        assert container["ports"] == [{"name": "http", "containerPort": PORT_DEFAULT}]
    for name in ("service", "peers"):
        (port,) = manifest(name)["spec"]["ports"]
        assert (port["port"], port["targetPort"]) == (PORT_DEFAULT, "http")


def test_probes_ask_where_the_application_answers_and_wait_for_it() -> None:
    paths = create_app(Settings()).openapi()["paths"]
    for container in controllers():
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
    program, before = controllers()[1]["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "sleep"
    one, several, _ = pods()
    assert one["terminationGracePeriodSeconds"] > DEFAULT_LIMITS.drain_s
    assert several["terminationGracePeriodSeconds"] > int(before) + DEFAULT_LIMITS.drain_s


def test_variables_and_arguments_are_known_to_the_command() -> None:
    for container in controllers():
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
    assert [pod["enableServiceLinks"] for pod in pods()] == [False, False, False]
