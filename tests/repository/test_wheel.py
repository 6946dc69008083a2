"""The wheel, as it is built for others, holds the packages and works."""

import json
import re
import shlex
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from importlib.metadata import distribution, files, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from strandline.testing import InProcessController
from tools.package_readme import PackageReadme
from tools.try_wheel import USERS_OWN
from tools.website import LINK

pytestmark = pytest.mark.full


WRITE_AND_READ = """
import json, os, sys
sys.path[:0] = [os.getcwd(), *sys.argv[1:3]]
import reader_client, strandline.testing, writer_client
for package in (reader_client, writer_client):
    for name in package.__all__:
        getattr(package, name)
assert writer_client.__file__.startswith(sys.argv[1]), writer_client.__file__
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog
url, stream, path = sys.argv[3:]
log = SqliteLog.create(path, segments=1)
with writer_client.Writer(url, stream, "w1", log=log) as writer:
    writer.write([Event(b"x", segment="0")])
    writer.note_time(1_700_000_000_000)
with reader_client.TimeWindows(url, stream) as windows:
    lower = windows.get_time_window({"0": 1}).lower
scripted = strandline.testing.ScriptedLog()
scripted.writer().append([Event(b"x", segment="0")])
outside = {name.split(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(json.dumps({"lower": lower, "loaded": sorted(outside)}))
"""


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built now from what is here."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    """The names of the files in the wheel."""
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_holds_the_packages_and_nothing_else(
    names: set[str], packages: list[str], pyproject: dict[str, Any]
) -> None:
    description = f"strandline-{pyproject['project']['version']}.dist-info"
    ours = {*packages, "pyspark_strandline.py"} - {"migrations"}
    assert {name.split("/")[0] for name in names} == {*ours, description}
    assert f"{description}/licenses/LICENSE" in names


def shipped_as(name: str) -> str:
    """Where the wheel has a file of the project."""
    name = f"controller/{name}" if name.startswith("migrations/") else name
    return name.removeprefix("spark_integration/discovered/")


def test_the_wheel_is_file_by_file_what_the_tests_run_on(
    wheel: Path, packages: list[str], project_files: list[Path], root: Path
) -> None:
    shipped = [file for file in project_files if file.relative_to(root).parts[0] in packages]
    ours = {shipped_as(str(file.relative_to(root))): file for file in shipped}
    with zipfile.ZipFile(wheel) as opened:
        theirs = {name: opened.read(name) for name in opened.namelist() if ".dist-info/" not in name}
    assert sorted(theirs) == sorted(ours)
    assert [name for name, file in ours.items() if file.read_bytes() != theirs[name]] == []


@pytest.fixture(scope="module")
def description(wheel: Path) -> Message:
    """What the wheel says of itself."""
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(opened.read(name).decode())


def needs_of(name: str) -> set[str]:
    """The packages that come with one, by their own descriptions, and itself."""
    found, next_ones = set[str](), [Requirement(name)]
    while next_ones:
        requirement = next_ones.pop()
        if requirement.name not in found:
            found.add(requirement.name)
            asked = [Requirement(each) for each in requires(requirement.name) or []]
            extras = requirement.extras or {""}
            next_ones += [
                each for each in asked if not each.marker or any(each.marker.evaluate({"extra": one}) for one in extras)
            ]
    return found


def test_a_writers_install_needs_httpx_msgspec_and_no_module_of_the_user(
    wheel: Path, description: Message, tmp_path: Path
) -> None:
    """In a Python that sees the wheel, those packages, and nothing else that is installed."""
    base = [each for each in description.get_all("Requires-Dist", []) if "extra ==" not in each]
    ours, theirs = tmp_path / "wheel", tmp_path / "needs"
    zipfile.ZipFile(wheel).extractall(ours)
    theirs.mkdir()
    brought = set[str]().union(*map(needs_of, base))
    for name in brought:
        for top in {Path(str(file)).parts[0] for file in files(name) or []} - {"..", "__pycache__"}:
            (theirs / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    for name in USERS_OWN:  # in the folder in which it runs, and the first that Python looks in
        (tmp_path / f"{name}.py").write_text("raise SystemExit('this is a module of the user')\n")
    with InProcessController() as controller:
        controller.create_stream("s")
        arguments = [str(ours), str(theirs), controller.listen(), "s", str(tmp_path / "log.db")]
        command = [sys.executable, "-I", "-S", "-c", WRITE_AND_READ, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["lower"] == 1_700_000_000_000
    modules = {name.replace("-", "_") for name in brought} | {"reader_client", "strandline", "writer_client"}
    modules.add("__main__")
    assert set(found["loaded"]) - modules == set()


def test_the_readmes_pip_install_gives_the_packages_and_the_command(
    root: Path, packages: list[str], tmp_path: Path
) -> None:
    """What it needs is installed here already, so pip fetches nothing."""
    (line,) = [line for line in (root / "README.md").read_text().splitlines() if line.startswith("pip install ")]
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(tmp_path)]
    command = [sys.executable, "-m", *shlex.split(line), *offline]
    subprocess.run(command, cwd=root, capture_output=True, check=True)
    assert [each for each in packages if each != "migrations" and not (tmp_path / each / "__init__.py").exists()] == []
    assert (tmp_path / "bin" / "strandline").exists()


def test_the_package_index_shows_the_readme_without_a_dead_link(description: Message) -> None:
    assert description["Description-Content-Type"] == "text/markdown"
    shown = str(description.get_payload())
    assert "# Strandline" in shown
    assert [link for link in LINK.findall(shown) if not link.startswith(("https://", "#"))] == []


def test_with_the_repositorys_address_the_readme_leads_to_the_files_of_the_version(root: Path) -> None:
    metadata: dict[str, Any] = {"version": "1.2.0", "urls": {"Source": "https://example.org/strandline"}}
    PackageReadme(str(root), {}).update(metadata)
    shown = metadata["readme"]["text"]
    found = re.findall(r"(!?)\[[^\]]*\]\(https://example.org/strandline/(\w+)/v1.2.0/([^)#]+)", shown)
    assert {(mark, kind) for mark, kind, _ in found} == {("!", "raw"), ("", "blob")}
    assert [path for _, _, path in found if not (root / path).exists()] == []
    assert len(found) == len(LINK.findall((root / "README.md").read_text())) > 10
