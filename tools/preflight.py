"""Checks the needs of the set-up, then runs environment.py, or another tool, under a Python that is new enough.

All that is missing is named at once, in the first lines of the output, with one command that installs it. The exit
status is 1 if nothing runs without it. This file alone must also run on old Pythons (3.6), so that they name the
problem instead of failing with a syntax error.
"""

import argparse
import ctypes
import glob
import os
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

OLDEST_PYTHON = (3, 11)
OTHER_PYTHONS = [f"python3.{minor}" for minor in range(11, 15)]
OLDEST_JAVA = 17
JAVA_PACKAGES = [f"openjdk-{version}-jre-headless" for version in (17, 21, 25)]
ANY_JAVA = "default-jre-headless"  # what each release of Debian takes for it
VECTOR_MODULE = "jdk.incubator.vector"
POSTGRES_PROGRAMS = "/usr/lib/postgresql/*/bin/initdb"  # Debian keeps a server's programs off the PATH
CLUSTERS = "/etc/postgresql-common/createcluster.d/strandline.conf"
PACKAGE_LISTS = "/var/lib/apt/lists/*_Packages*"
# Programs that only some tests run on: what is not done without each, and the packages that have it.
PROGRAMS = (
    ("mvn", "which fetches Kafka, the tests on Kafka are skipped", ("maven",)),
    ("chromium", "the tests of the dashboard are skipped", ("chromium", "fonts-dejavu-core")),
    ("wrk", "make bench skips the rates over HTTP", ("wrk",)),
)
# Playwright brings a Node.js that is linked to it; with the recommended packages of others it mostly is there already.
ATOMIC_LIBRARY = "libatomic.so.1"
OPTIONS = {"mvn": "maven", "chromium": "chromium", "wrk": "wrk"}
# Programs that single tests run, and their packages; that of javac is chosen as that of java is.
SMALL_PROGRAMS = {"curl": "curl", "openssl": "openssl", "ps": "procps", "systemd-analyze": "systemd", "go": "golang-go"}


class NeedError(Exception):
    """The set-up cannot go on. The message is what the user sees."""


class Lack(NamedTuple):
    """Something that is missing: what to say of it, the packages that have it, and whether nothing runs without it."""

    line: str
    packages: "tuple[str, ...]"
    is_needed: bool


def output_of(*command: str) -> "str | None":
    """What a command prints on both outputs, or None if it is missing or fails."""
    try:
        return subprocess.check_output(command, stderr=subprocess.STDOUT).decode("utf-8", "replace")
    except (OSError, subprocess.CalledProcessError):
        return None


def installing(*packages: str) -> str:
    """The command with which this user installs these Debian packages."""
    command = "apt-get install -y " + " ".join(packages)
    if shutil.which("apt-get") is None:
        return command + " (on Debian; elsewhere the packages have other names)"
    commands = [command] if glob.glob(PACKAGE_LISTS) else ["apt-get update", command]  # without lists it finds none
    if os.geteuid() == 0:
        return " && ".join(commands)
    if shutil.which("sudo") is None:  # Debian's base has none
        return " && ".join(commands) + " (as root)"
    return " && ".join("sudo " + each for each in commands)


def python_version(python: str) -> "tuple[int, int] | None":
    """The version of a Python, or None if it does not start (pyenv leaves shims that do not)."""
    text = output_of(python, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    if text is None or not re.match(r"\d+\.\d+\s*$", text):
        return None
    major, minor = text.split(".")
    return int(major), int(minor)


def find_python() -> "str | None":
    """The running Python if it is new enough, else the first on the PATH that is."""
    for python in [sys.executable, *OTHER_PYTHONS]:
        version = python_version(python)
        if version is not None and version >= OLDEST_PYTHON:
            return python
    return None


def python_lack(python: "str | None") -> "Lack | None":
    """A missing Python, or what a Python lacks to create virtual environments, as Debian ships it."""
    if python is None:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        found = ".".join(map(str, sys.version_info[:2]))
        line = (
            f"strandline needs Python {oldest} or newer and found {found} ({sys.executable}); if one is installed "
            "elsewhere, name it: make PYTHON=... test"
        )
        return Lack(line, ("python3.11", "python3.11-venv"), True)
    if output_of(python, "-I", "-c", "import ensurepip, venv") is not None:
        return None
    version = python_version(python)
    systems_own = os.path.realpath(shutil.which(python) or python) == os.path.realpath("/usr/bin/python3")
    package = "python3-venv" if systems_own or version is None else f"python{version[0]}.{version[1]}-venv"
    line = f"strandline needs {package}, without which {python} cannot create a virtual environment"
    return Lack(line, (package,), True)


def java_problem() -> "str | None":
    """Why Spark cannot run on the Java that it would choose (JAVA_HOME, else the PATH), or None."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    text = output_of(java, "-version")
    if text is None:
        return f"JAVA_HOME is {home} and {java} does not run" if home else "there is no java on the PATH"
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return f"{java} -version does not print its version"
    major = int(found.group(1))
    if major == 1:  # Java 8 calls itself 1.8
        major = int(found.group(2) or 1)
    if major < OLDEST_JAVA:
        return f"{java} is Java {major}"
    if VECTOR_MODULE not in (output_of(java, "--list-modules") or ""):
        return f"{java} lacks the module {VECTOR_MODULE}"
    return None


def java_package() -> str:
    """The oldest package of a Java that is new enough and is in this system's package lists, which may be empty."""
    for package in JAVA_PACKAGES:
        if "Version: " in (output_of("apt-cache", "show", package) or ""):  # of a name alone it shows nothing
            return package
    return ANY_JAVA


def compiler_package() -> str:
    """The package of a Java that has the compiler as well."""
    return java_package().replace("-jre-", "-jdk-")


def java_lack() -> "Lack | None":
    """A Java that Spark finds and does not run on, or none."""
    problem = java_problem()
    if problem is None:
        return None
    line = f"strandline needs Java {OLDEST_JAVA} or newer, which Spark runs on, and {problem}"
    if os.environ.get("JAVA_HOME"):  # an installed Java would not be used
        line += "; unset JAVA_HOME, and if that is not enough, install one"
    return Lack(line, (java_package(),), True)


def postgres_is_there() -> bool:
    """Whether the programs of a PostgreSQL server are installed."""
    return bool(glob.glob(POSTGRES_PROGRAMS)) or shutil.which("initdb") is not None


def library_is_there(name: str) -> bool:
    """Whether programs find a shared library."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def lacks_for(python: "str | None", arguments: argparse.Namespace) -> "list[Lack]":
    """All that is missing for what was asked for, first that without which nothing runs."""
    found = [python_lack(python)]
    if arguments.java:
        found.append(java_lack())
    if arguments.postgres and not postgres_is_there():
        found.append(Lack("without PostgreSQL's server, the tests on PostgreSQL are skipped", ("postgresql",), False))
    for program, without, packages in PROGRAMS:
        if getattr(arguments, OPTIONS[program]) and shutil.which(program) is None:
            found.append(Lack(f"without {program}, {without}", packages, False))
    if arguments.chromium and sys.platform == "linux" and not library_is_there(ATOMIC_LIBRARY):
        found.append(Lack(f"without {ATOMIC_LIBRARY}, the tests of the dashboard fail", ("libatomic1",), False))
    if arguments.programs:
        found.append(programs_lack())
    return [lack for lack in found if lack is not None]


def programs_lack() -> "Lack | None":
    """The programs that only single tests run, in one line."""
    packages = dict(SMALL_PROGRAMS, javac=compiler_package())
    missing = [program for program in packages if shutil.which(program) is None]
    line = f"without {', '.join(missing)}, tests that run one of them fail or are skipped"
    return Lack(line, tuple(packages[program] for program in missing), False) if missing else None


def may_install() -> bool:
    """Whether packages may be installed unasked: by root, on a Debian-like system, without STRANDLINE_NO_INSTALL."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None and not os.environ.get("STRANDLINE_NO_INSTALL")


def described(lacks: "list[Lack]") -> str:
    """A line for each lack, and the one command that installs all of it."""
    command = installing(*[package for lack in lacks for package in lack.packages])
    if len(lacks) == 1:
        return f"{lacks[0].line}; install it with: {command}"
    return "\n".join([*(lack.line for lack in lacks), f"install all of this with: {command}"])


def install(lacks: "list[Lack]") -> None:
    """Installs what is missing, in one go; Debian must start no PostgreSQL, since tests start servers of their own."""
    packages = [package for lack in lacks for package in lack.packages]
    before_postgres = "postgresql" in packages
    if before_postgres:
        os.makedirs(os.path.dirname(CLUSTERS), exist_ok=True)
        with open(CLUSTERS, "w") as file:
            file.write("create_main_cluster = false\n")
    try:
        run_apt("install", "-y", "-q", "--no-install-recommends", *packages)
    finally:
        if before_postgres:
            os.remove(CLUSTERS)  # later installations get Debian's default again


def run_apt(*arguments: str) -> None:
    """Runs apt-get and shows its output."""
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    if subprocess.call(("apt-get", *arguments), env=environment) != 0:
        raise NeedError(f"apt-get {' '.join(arguments)} failed; its output is above")


def say(line: str) -> None:
    """Prints a line and flushes it, since the output may be a pipe."""
    print(line)
    sys.stdout.flush()


def check(python: "str | None", arguments: argparse.Namespace) -> None:
    """Installs what is missing where it may, else tells it; raises NeedError if nothing runs without it."""
    lacks = lacks_for(python, arguments)
    in_vain = python is None or (os.environ.get("JAVA_HOME") and any("Java" in lack.line for lack in lacks))
    if lacks and may_install() and not in_vain:
        for lack in lacks:
            say(lack.line)
        say("strandline: installing all of this now; STRANDLINE_NO_INSTALL=1 prevents it")
        run_apt("update", "-qq")
        install(lacks_for(python, arguments))  # the lists may have been empty before
        lacks = [lack for lack in lacks_for(python, arguments) if lack.is_needed]
    if any(lack.is_needed for lack in lacks):
        raise NeedError(described(lacks))
    if lacks:
        say(described(lacks))


def main() -> int:
    """Checks every need, then executes a tool."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--java", action="store_true", help="Spark will run as well")
    parser.add_argument("--postgres", action="store_true", help="the tests on PostgreSQL will run as well")
    parser.add_argument("--maven", action="store_true", help="the tests on Kafka will run as well")
    parser.add_argument("--chromium", action="store_true", help="the tests of the dashboard will run as well")
    parser.add_argument("--wrk", action="store_true", help="the benchmarks over HTTP will run as well")
    parser.add_argument("--programs", action="store_true", help="the tests that run other programs will run as well")
    parser.add_argument("--check-only", action="store_true", help="check the needs and set up nothing")
    parser.add_argument("--run", metavar="TOOL", help="run this tool instead of setting up .venv, as website")
    arguments = parser.parse_args()
    python = find_python()
    try:
        check(python, arguments)
    except NeedError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    assert python is not None
    if arguments.run:
        os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        os.execvp(python, [python, "-m", "tools." + arguments.run])
    if not arguments.check_only:
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "environment.py")
        os.execvp(python, [python, "-I", script])
    return 0


if __name__ == "__main__":
    sys.exit(main())
