"""The page about other languages does what it shows: with curl here, and in each language whose tools are installed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import httpx
import playwright
import pytest

from tests.readme.pages import CONTROLLER, Block, Stranger, blocks_of
from tests.summary import skip
from tools.preflight import compiler_package, installing

pytestmark = pytest.mark.full

PAGE = "docs/how-to/other-languages.md"
OF_LANGUAGES = ("java", "go", "ts")
DEADLINE_S = 280  # Go compiles its standard library when it is first used
NODE = Path(playwright.__file__).parent / "driver"  # Playwright brings one that runs TypeScript as it is


def need(language: str) -> None:
    """Skips where this machine lacks the tools of a language."""
    match language:
        case "java" if shutil.which("javac") is None:
            skip("no Java development kit is installed", installing(compiler_package()))
        case "go" if shutil.which("go") is None:
            skip("Go is not installed", installing("golang-go"))


def test_curl_writes_and_reads_as_the_page_about_other_languages_shows(controller: str, tmp_path: Path) -> None:
    with Stranger(tmp_path, controller=controller) as stranger:
        for block in blocks_of(PAGE):
            if block.language in OF_LANGUAGES:
                break
            stranger.do(block)


@pytest.mark.parametrize("language", OF_LANGUAGES)
def test_a_program_with_a_standard_library_alone_writes_and_reads(
    language: str, controller: str, tmp_path: Path
) -> None:
    need(language)
    httpx.put(f"{controller}/v1/streams/orders", json={"segments": 1, "mark_interval_ms": 0}).raise_for_status()
    program, command, printed = of_language(language)
    assert program.file is not None
    (tmp_path / program.file).write_text(program.text)
    words = shlex.split(command.text.replace(f"http://{CONTROLLER}", controller))
    environment = os.environ | {"PATH": f"{NODE}:{os.environ['PATH']}"}
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )
    assert (done.stdout, done.returncode) == (printed.text, 0), done.stderr
    (writer,) = httpx.get(f"{controller}/v1/streams/orders/writers").json()["writers"]
    assert writer["state"] == "closed"


def of_language(language: str) -> tuple[Block, Block, Block]:
    """The program of a language, the command that runs it, and what it prints."""
    blocks = blocks_of(PAGE)
    (at,) = [number for number, block in enumerate(blocks) if block.language == language]
    program, command, printed = blocks[at : at + 3]
    assert (command.language, printed.language) == ("sh", "text")
    return program, command, printed
