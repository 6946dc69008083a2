"""Checks the needs of the set-up, then runs environment.py, or another tool, under a Python that is new enough.

If something is missing, the first line of the output names it, with the command that installs it, and the
exit status is 1. This file alone must also run on old Pythons (3.6), so that they name the problem instead of
failing with a syntax error.
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys

OLDEST_PYTHON = (3, 11)
OTHER_PYTHONS = [f"python3.{minor}" for minor in range(11, 15)]
OLDEST_JAVA = 17
JAVA_PACKAGES = [f"openjdk-{version}-jre-headless" for version in (17, 21, 25)]
VECTOR_MODULE = "jdk.incubator.vector"
POSTGRES_PROGRAMS = "/usr/lib/postgresql/*/bin/initdb"  # Debian keeps a server's programs off the PATH
CLUSTERS = "/etc/postgresql-common/createcluster.d/strandline.conf"


class NeedError(Exception):
    """Something that the set-up needs is missing. The message is the first line that the user sees."""


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
    return command if os.geteuid() == 0 else "sudo " + command


def python_version(python: str) -> "tuple[int, int] | None":
    """The version of a Python, or None if it does not start (pyenv leaves shims that do not)."""
    text = output_of(python, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    if text is None or not re.match(r"\d+\.\d+\s*$", text):
        return None
    major, minor = text.split(".")
    return int(major), int(minor)


def find_python() -> str:
    """The running Python if it is new enough, else the first on the PATH that is."""
    for python in [sys.executable, *OTHER_PYTHONS]:
        version = python_version(python)
        if version is not None and version >= OLDEST_PYTHON:
            return python
    oldest = ".".join(map(str, OLDEST_PYTHON))
    found = ".".join(map(str, sys.version_info[:2]))
    command = installing("python3.11", "python3.11-venv")
    raise NeedError(
        f"strandline needs Python {oldest} or newer and found {found} ({sys.executable}); "
        f"install one with: {command}\nIf one is installed elsewhere, name it: make PYTHON=... test"
    )


def check_venv(python: str) -> None:
    """Raises NeedError for a Python without the modules for virtual environments, as Debian ships it."""
    if output_of(python, "-I", "-c", "import ensurepip, venv") is not None:
        return
    version = python_version(python)
    systems_own = os.path.realpath(shutil.which(python) or python) == os.path.realpath("/usr/bin/python3")
    package = "python3-venv" if systems_own or version is None else f"python{version[0]}.{version[1]}-venv"
    raise NeedError(
        f"strandline needs {package}, without which {python} cannot create a virtual environment; "
        f"install it with: {installing(package)}"
    )


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
    """The oldest package of a Java that is new enough and is in this system's package lists."""
    for package in JAVA_PACKAGES:
        if output_of("apt-cache", "show", package) is not None:
            return package
    return JAVA_PACKAGES[0]


def may_install() -> bool:
    """Whether packages may be installed unasked: by root, on a Debian-like system, without STRANDLINE_NO_INSTALL."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None and not os.environ.get("STRANDLINE_NO_INSTALL")


def check_java() -> None:
    """Raises NeedError if Spark finds no Java that it runs on; for root on a Debian-like system it installs one."""
    problem = java_problem()
    if problem is None:
        return
    package = java_package()
    need = f"strandline needs Java {OLDEST_JAVA} or newer, which Spark runs on, and {problem}"
    if os.environ.get("JAVA_HOME"):  # an installed Java would not be used
        raise NeedError(f"{need}; unset JAVA_HOME, and if necessary install one with: {installing(package)}")
    if not may_install():
        raise NeedError(f"{need}; install it with: {installing(package)}")
    say(f"{need}; installing it now: {installing(package)}")
    run_apt("update", "-qq")
    package = java_package()  # the lists may have been empty before
    run_apt("install", "-y", "-q", "--no-install-recommends", package)
    problem = java_problem()
    if problem is not None:
        raise NeedError(f"{package} is installed, yet {problem}")


def postgres_is_there() -> bool:
    """Whether the programs of a PostgreSQL server are installed."""
    return bool(glob.glob(POSTGRES_PROGRAMS)) or shutil.which("initdb") is not None


def check_postgres() -> None:
    """Installs a PostgreSQL server for root on a Debian-like system; elsewhere prints what its tests need.

    Nothing else needs a server, so a missing one is no failure. The tests start servers of their own, so Debian must
    not start one on installation.
    """
    if postgres_is_there():
        return
    if not may_install():
        command = installing("postgresql")
        say(f"tests on PostgreSQL are skipped, its server is not installed; install it with: {command}")
        return
    say(f"installing PostgreSQL's server, which tests run on: {installing('postgresql')}")
    run_apt("update", "-qq")
    run_apt("install", "-y", "-q", "--no-install-recommends", "postgresql-common")
    os.makedirs(os.path.dirname(CLUSTERS), exist_ok=True)
    with open(CLUSTERS, "w") as file:
        file.write("create_main_cluster = false\n")
    try:
        run_apt("install", "-y", "-q", "--no-install-recommends", "postgresql")
    finally:
        os.remove(CLUSTERS)  # later installations get Debian's default again


def check_program(program: str, without: str, *packages: str) -> None:
    """Installs a program for root on a Debian-like system; elsewhere prints what is not done without it.

    Nothing else needs it, so a missing one is no failure.
    """
    if shutil.which(program) is not None:
        return
    command = installing(packages[0])
    if not may_install():
        say(f"without {program}, {without}; install it with: {command}")
        return
    say(f"installing {program}: without it, {without}: {command}")
    run_apt("update", "-qq")
    run_apt("install", "-y", "-q", "--no-install-recommends", *packages)


def run_apt(*arguments: str) -> None:
    """Runs apt-get and shows its output."""
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    if subprocess.call(("apt-get", *arguments), env=environment) != 0:
        raise NeedError(f"apt-get {' '.join(arguments)} failed; its output is above")


def say(line: str) -> None:
    """Prints a line and flushes it, since the output may be a pipe."""
    print(line)
    sys.stdout.flush()


def main() -> int:
    """Checks each need in turn, then executes environment.py."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--java", action="store_true", help="Spark will run as well")
    parser.add_argument("--postgres", action="store_true", help="the tests on PostgreSQL will run as well")
    parser.add_argument("--maven", action="store_true", help="the tests on Kafka will run as well")
    parser.add_argument("--chromium", action="store_true", help="the tests of the dashboard will run as well")
    parser.add_argument("--wrk", action="store_true", help="the benchmarks over HTTP will run as well")
    parser.add_argument("--check-only", action="store_true", help="check the needs and set up nothing")
    parser.add_argument("--run", metavar="TOOL", help="run this tool instead of setting up .venv, as website")
    arguments = parser.parse_args()
    try:
        python = find_python()
        check_venv(python)
        if arguments.java:
            check_java()
        if arguments.postgres:
            check_postgres()
        if arguments.maven:
            check_program("mvn", "which fetches Kafka, the tests on Kafka are skipped", "maven")
        if arguments.chromium:
            check_program("chromium", "the tests of the dashboard are skipped", "chromium", "fonts-dejavu-core")
        if arguments.wrk:
            check_program("wrk", "make bench skips the rates over HTTP", "wrk")
    except NeedError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if arguments.run:
        os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        os.execvp(python, [python, "-m", "tools." + arguments.run])
    if not arguments.check_only:
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "environment.py")
        os.execvp(python, [python, "-I", script])
    return 0


if __name__ == "__main__":
    sys.exit(main())
