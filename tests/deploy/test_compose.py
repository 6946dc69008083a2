"""The compose file keeps the rules of Compose and fits the product."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import compose_spec
import pytest
from psycopg.pq import Conninfo

from controller.limits import DEFAULT_LIMITS
from controller.settings import PORT_DEFAULT
from tests.deploy.deployed import COMPOSE, PROJECT, ROOT, compose, variables
from tests.postgres import Postgres
from tests.readme.pages import blocks_of
from tests.served import OwnProcess

pytestmark = pytest.mark.full

PAGE = "docs/how-to/deploy-with-compose.md"


def libpq_variables() -> set[str]:
    return {each.envvar.decode() for each in Conninfo.get_defaults() if each.envvar is not None}


def test_the_file_keeps_the_rules_of_compose() -> None:
    compose_spec.PyCompose.from_yaml(COMPOSE.read_text()).validate()


def test_it_builds_and_runs_the_image_of_this_version() -> None:
    controller = compose()["services"]["strandline"]
    assert controller["image"] == f"strandline:{PROJECT['version']}"
    context = (COMPOSE.parent / controller["build"]["context"]).resolve()
    assert context == ROOT
    assert (context / controller["build"]["dockerfile"]).is_file()


def test_every_variable_is_an_option_or_one_of_libpq() -> None:
    named = set(compose()["services"]["strandline"]["environment"])
    assert named <= variables("serve") | libpq_variables()


def test_port_and_grace_are_the_products() -> None:
    controller = compose()["services"]["strandline"]
    assert controller["ports"] == [f"127.0.0.1:{PORT_DEFAULT}:{PORT_DEFAULT}"]
    assert int(controller["stop_grace_period"].removesuffix("s")) > DEFAULT_LIMITS.drain_s


def test_secrets_come_from_files_and_reach_who_needs_them() -> None:
    file = compose()
    for name, secret in file["secrets"].items():
        assert secret == {"file": f"secrets/{name}"}
    assert file["services"]["postgres"]["environment"]["POSTGRES_PASSWORD_FILE"] == "/run/secrets/postgres_password"
    assert file["services"]["strandline"]["environment"]["PGPASSFILE"] == "/run/secrets/pgpass"
    assert file["services"]["strandline"]["secrets"] == ["pgpass"]


def test_the_pages_secrets_let_the_controller_into_postgresql(
    new_postgres: Callable[..., Postgres], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = (each.text for each in blocks_of(PAGE) if "openssl" in each.text)
    subprocess.run(["bash", "-ec", block.replace("cd deploy/compose\n", "")], cwd=tmp_path, check=True)
    secrets = tmp_path / "secrets"
    assert {each.name for each in secrets.iterdir()} == set(compose()["secrets"])
    server = new_postgres("fsync=off")
    server.execute("CREATE DATABASE strandline")
    server.execute(f"ALTER ROLE strandline PASSWORD '{(secrets / 'postgres_password').read_text().strip()}'")
    ((rules,),) = server.execute("SHOW hba_file")
    lines = "('host postgres all 127.0.0.1/32 trust'), ('host strandline all 127.0.0.1/32 scram-sha-256')"
    server.execute(f"COPY (VALUES {lines}) TO '{rules}'")
    server.execute("SELECT pg_reload_conf()")

    here = f"127.0.0.1:{server.port}"
    known = secrets / "pgpass"
    known.write_text(known.read_text().replace("postgres:5432", here))
    url = compose()["services"]["strandline"]["environment"]["STRANDLINE_DATABASE"].replace("postgres:5432", here)
    monkeypatch.setenv("PGPASSFILE", os.devnull)
    with pytest.raises(AssertionError, match="no password supplied"):
        OwnProcess(url)
    monkeypatch.setenv("PGPASSFILE", str(known))
    controller = OwnProcess(url)
    assert controller.client.get("/readyz").status_code == 200
    assert controller.stop() == 0
