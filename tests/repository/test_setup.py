"""A missing need is named first, with the command that installs it, and what is there already is not made again."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.full

JAVA = """#!/bin/sh
case "$1" in
-version) echo 'openjdk version "{version}"' >&2 ;;
--list-modules) echo 'java.base@{version}'; echo '{module}' ;;
esac
"""


def script(path: Path, text: str) -> None:
    """Writes a program of a few lines."""
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """An empty folder that is all of the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def preflight(root: Path, programs: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Checks the needs on a machine that has these programs and no others, and installs nothing."""
    command = [sys.executable, "-I", str(root / "tools" / "preflight.py"), "--check-only", *options]
    variables = {"PATH": str(programs), "STRANDLINE_NO_INSTALL": "1", **environment}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def test_a_machine_that_has_what_is_needed_is_told_nothing(root: Path, programs: Path) -> None:
    script(programs / "java", JAVA.format(version="17.0.15", module="jdk.incubator.vector@17.0.15"))
    done = preflight(root, programs, "--java")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("version", "module", "named"),
    [
        ("11.0.2", "jdk.incubator.vector", "java is Java 11"),
        ("1.8.0_292", "jdk.incubator.vector", "java is Java 8"),
        ("21.0.1", "java.sql", "java lacks the module jdk.incubator.vector"),
    ],
)
def test_an_unusable_java_is_named_first_with_the_command(
    root: Path, programs: Path, version: str, module: str, named: str
) -> None:
    script(programs / "java", JAVA.format(version=version, module=module))
    done = preflight(root, programs, "--java")
    first = done.stderr.splitlines()[0]
    assert done.returncode == 1
    assert first.startswith("strandline needs Java 17")
    assert named in first
    assert "apt-get install -y default-jre-headless" in first


MAKE = shutil.which("make")


@pytest.mark.parametrize("target", ["test", "demo", "check", "servers"])
def test_make_without_any_python_says_what_to_install_and_does_nothing(root: Path, programs: Path, target: str) -> None:
    assert MAKE is not None
    script(programs / "sh", "")
    (programs / "sh").unlink()
    (programs / "sh").symlink_to("/bin/sh")
    command = [MAKE, "-C", str(root), "--no-print-directory", target]
    done = subprocess.run(command, env={"PATH": str(programs)}, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.splitlines()[0].endswith("apt-get install -y python3 python3-venv")


def as_user(root: Path, programs: Path, user: int, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The checks as this user runs them: they ask who they are by `os.geteuid`."""
    code = (
        f"import os, runpy, sys; os.geteuid = lambda: {user}; sys.argv[1:] = ['--check-only', *sys.argv[2:]];"
        f"runpy.run_path({str(root / 'tools' / 'preflight.py')!r}, run_name='__main__')"
    )
    command = [sys.executable, "-I", "-c", code, "preflight", *options]
    environment = {"PATH": str(programs), **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def installed(programs: Path) -> Path:
    """What an apt-get that is there was asked for."""
    asked = programs.parent / "asked"
    asked.touch()
    script(programs / "apt-get", f'#!/bin/sh\necho "$@" >>{asked}\n')
    return asked


ALL = ("--java", "--postgres", "--maven", "--chromium", "--wrk", "--programs")


def test_all_that_is_missing_is_told_at_once_with_one_command(root: Path, programs: Path, installed: Path) -> None:
    script(programs / "sudo", "#!/bin/sh\n")
    done = as_user(root, programs, 1000, *ALL)
    assert (done.returncode, done.stdout) == (1, "")
    *lines, last = done.stderr.splitlines()
    told = ["Java 17", "PostgreSQL's server", "mvn", "chromium", "wrk", "curl, openssl, ps, systemd-analyze, go, javac"]
    if postgres_is_installed():
        told.remove("PostgreSQL's server")
    assert len(lines) == len(told) and all(word in line for word, line in zip(told, lines, strict=True))
    assert "sudo apt-get install -y default-jre-headless " in last
    assert last.endswith("fonts-dejavu-core wrk curl openssl procps systemd golang-go default-jdk-headless")
    assert installed.read_text() == ""


def test_whatever_a_test_says_that_it_lacks_was_asked_for_in_the_first_lines(
    root: Path, programs: Path, installed: Path
) -> None:
    asked = as_user(root, programs, 1000, *ALL).stderr.split()
    named = re.compile(r"""(?:apt-get install -y |installing\(["'])([a-z][\w-]+)""")
    own = root / "tests" / "repository"
    files = [file for file in (root / "tests").rglob("*.py") if not file.is_relative_to(own)]
    packages = {package for file in files for package in named.findall(file.read_text())}
    there = {"postgresql", "util-linux"}  # maybe on this machine; in every Debian
    assert {"golang-go", "systemd"} < packages
    assert [package for package in sorted(packages - there) if package not in asked] == []


def postgres_is_installed() -> bool:
    """Whether this machine has it where Debian puts it, which is off the PATH."""
    return any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


def test_root_on_debian_gets_what_is_missing_unless_told_otherwise(root: Path, programs: Path, installed: Path) -> None:
    told = as_user(root, programs, 0, "--maven", "--chromium", STRANDLINE_NO_INSTALL="1")
    assert "apt-get install -y maven chromium" in told.stdout
    assert installed.read_text() == ""
    assert as_user(root, programs, 0, "--maven", "--chromium").returncode == 0
    asked = [line.split() for line in installed.read_text().splitlines() if line.startswith("install ")]
    assert [words[4:] for words in asked] == [["maven", "chromium", "fonts-dejavu-core"]]


@pytest.mark.parametrize(
    ("program", "told", "installs"),
    [
        ("echo 3.9", "strandline needs Python 3.11", "apt-get install -y python3.11 python3.11-venv"),
        # As Debian ships it: version 3.11, and `import ensurepip` fails.
        ('case "$3" in *ensurepip*) exit 1 ;; esac\necho 3.11', "-venv", "apt-get install -y python3.11-venv"),
    ],
    ids=["old", "without venv"],
)
def test_a_python_that_cannot_be_used_is_named_first_with_the_command(
    root: Path, programs: Path, program: str, told: str, installs: str
) -> None:
    """The Python that runs the checks passes for it: they ask a Python for its version by running it."""
    python = programs / "python3.11"
    script(python, f"#!/bin/sh\n{program}\n")
    code = (
        "import runpy, sys; sys.executable = sys.argv[1]; sys.argv[1:] = ['--check-only'];"
        f"runpy.run_path({str(root / 'tools' / 'preflight.py')!r}, run_name='__main__')"
    )
    command = [sys.executable, "-I", "-c", code, str(python)]
    done = subprocess.run(command, env={"PATH": str(programs)}, capture_output=True, text=True, check=False)
    first = done.stderr.splitlines()[0]
    assert done.returncode == 1 and told in first.split(",")[0] and installs in first


def tool(name: str, root: Path) -> ModuleType:
    """A script of tools, as a module."""
    specification = importlib.util.spec_from_file_location(name, root / "tools" / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def environment(root: Path) -> ModuleType:
    """The script that makes the virtual environment."""
    return tool("environment", root)


def test_the_environment_is_made_again_when_a_pin_changes_and_only_then(
    environment: ModuleType, root: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root / "tools" / "requirements", copy / "tools" / "requirements")
    before = environment.requirements_fingerprint(copy, "build", "dev")
    (copy / "README.md").write_text("another file")
    os.utime(copy / "tools" / "requirements" / "dev.txt", (0, 0))
    assert environment.requirements_fingerprint(copy, "build", "dev") == before
    with (copy / "tools" / "requirements" / "dev.txt").open("a") as file:
        file.write("one-more==1.0\n")
    assert environment.requirements_fingerprint(copy, "build", "dev") != before


def test_a_link_to_the_environment_of_another_checkout_is_not_followed(
    environment: ModuleType, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, another = tmp_path / "copy", tmp_path / "another"
    shutil.copytree(root / "tools" / "requirements", copy / "tools" / "requirements")
    shutil.copy(root / "pyproject.toml", copy)
    another.mkdir()
    (another / "kept").touch()
    (copy / ".venv").symlink_to(another)
    monkeypatch.setattr(environment, "ROOT", copy)
    monkeypatch.setattr(environment, "run", lambda *_, **__: (copy / ".venv").mkdir(exist_ok=True))
    assert environment.set_up()
    assert not (copy / ".venv").is_symlink() and [each.name for each in another.iterdir()] == ["kept"]


def test_an_interrupted_set_up_is_done_again(environment: ModuleType, tmp_path: Path) -> None:
    stamp = tmp_path / "requirements.stamp"
    assert not environment.is_stamped(stamp, "fingerprint")
    stamp.write_text("finger")
    assert not environment.is_stamped(stamp, "fingerprint")
    stamp.write_text("fingerprint")
    assert environment.is_stamped(stamp, "fingerprint")
