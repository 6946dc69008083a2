"""The pages about deploying name files, services, routes and commands that are there. The YAML is without a fault.

What they show for systemd, Docker and Kubernetes cannot be run by tests; the commands of `strandline` in it are parsed.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from yamllint import linter
from yamllint.config import YamlLintConfig

from controller.app import create_app
from controller.settings import PORT_DEFAULT, Settings
from tests.deploy.deployed import (
    COMPOSE,
    KUBERNETES,
    PROJECT,
    ROOT,
    UNIT,
    check_command,
    compose,
    manifest,
    unit,
    variables,
)
from tests.readme.pages import blocks_of, commands_of

PAGES = ["deploy-with-systemd", "deploy-with-compose", "deploy-on-kubernetes", "postgresql-failover"]
RULES = YamlLintConfig(
    "{extends: default, rules: {line-length: {max: 120}, document-start: disable, braces: {max-spaces-inside: 0}}}"
)
# Of the host, and nothing of ours in them.
OF_THE_HOST = {"cd", "umask", "openssl", "printf", "chown", "psql", "export", "journalctl"}
PODS = {"strandline-tools"}


@pytest.mark.parametrize("file", [COMPOSE, *KUBERNETES], ids=lambda file: file.name)
def test_a_yaml_file_is_without_a_fault(file: Path) -> None:
    assert [str(each) for each in linter.run(file.read_text(), RULES)] == []


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_about_deploying_shows_is_there(page: str) -> None:
    blocks = [block for block in blocks_of(f"docs/how-to/{page}.md") if block.language == "sh"]
    assert blocks
    for block in blocks:
        for line in commands_of(block.text):
            check(shlex.split(line.partition(" #")[0]))


def test_the_drop_in_for_tls_fits_the_unit() -> None:
    (text,) = (block.text for block in blocks_of("docs/how-to/deploy-with-systemd.md") if block.language == "ini")
    drop_in = unit(text)
    named = {each.partition("=")[0] for each in drop_in["Environment"]}
    assert named <= variables("serve") and not named & set(unit()["Environment"])
    handed = {each.partition(":")[0] for each in drop_in["LoadCredential"]}
    assert {each.rpartition("/")[2] for each in drop_in["Environment"]} == handed


def check(words: list[str]) -> None:
    """Raises where something that a command names is not there."""
    for word in words:
        if word.startswith("deploy/"):
            assert (ROOT / word).exists(), word
    match [word for word in words if word not in ("sudo", ">")]:
        case ["strandline" | "strandline-admin", *rest]:
            check_command(until_redirected(words, rest))
        case ["kubectl", "exec", pod, "--", "strandline", *rest]:
            assert pod in PODS
            check_command(until_redirected(words, rest))
        case ["kubectl", *rest]:
            check_names(rest)
        case ["docker", "compose", "run", "--rm", "--no-TTY", service, *rest]:
            assert service in compose()["services"]
            check_command(until_redirected(words, rest))
        case ["docker", "compose", *rest]:
            assert {"strandline", "postgres"} & set(rest) <= set(compose()["services"])
        case ["docker", "build", *_]:
            pass
        case ["systemctl", *rest]:
            assert rest == ["daemon-reload"] or rest[-1] == UNIT.stem
        case ["curl", address]:
            assert address.startswith(f"localhost:{PORT_DEFAULT}/")
            assert address.removeprefix(f"localhost:{PORT_DEFAULT}") in create_app(Settings()).openapi()["paths"]
        case ["python3", "-m", "venv", folder] | ["install", *_, folder]:
            assert folder.startswith("/")
        case [program, "install", *_, what]:
            extras = what.removeprefix(".[").removesuffix("]").split(",")
            assert set(extras) <= set(PROJECT["optional-dependencies"])
            assert Path(program).parent == Path(unit()["ExecStart"][0].split()[0]).parent
        case [program, *_]:
            assert program in OF_THE_HOST, program


def until_redirected(words: list[str], rest: list[str]) -> list[str]:
    """Of the last words, those that are no file for the output."""
    return rest[:-1] if ">" in words else rest


def check_names(words: list[str]) -> None:
    """Raises if a command for Kubernetes names what no manifest has."""
    there = {f"{each['kind'].lower()}/{each['metadata']['name']}" for each in map(manifest, stems())}
    for word in words:
        if re.fullmatch(r"(deployment|service|pod)/\S+", word):
            assert word in there
        if word.startswith("--selector="):
            name, _, value = word.removeprefix("--selector=").partition("=")
            assert manifest("deployment")["metadata"]["labels"][name] == value


def stems() -> list[str]:
    return [file.stem for file in KUBERNETES]
