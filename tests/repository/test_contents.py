"""The project works from any place and names no server that packages come from."""

import re
import shutil
import subprocess
from pathlib import Path

# Put together here, so that this file does not hold what it looks for.
FOLDERS = "|".join(("work", "root", "home", "tmp"))
ABSOLUTE_PATH = re.compile(rf"(?<![\w.}})~*-])/(?:{FOLDERS})(?=[/\"'`\s)\]:;,]|$)")
HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("repo", "maven"),
        ("repo1", "maven"),
        ("maven", "org"),
        ("npmjs", "org"),
        ("ghcr", "io"),
        ("docker", "io"),
    )
]
REGISTRY_HOST = re.compile("|".join(re.escape(host) for host in HOSTS), re.IGNORECASE)


def text_of(file: Path) -> str:
    """The text of a file, or nothing for a picture and the like."""
    try:
        return file.read_text()
    except UnicodeDecodeError:
        return ""


def lines_with(pattern: re.Pattern[str], files: list[Path], root: Path) -> list[str]:
    """Every line, with its place, in which the pattern is found."""
    return [
        f"{file.relative_to(root)}:{number}: {line.strip()[:120]}"
        for file in files
        for number, line in enumerate(text_of(file).splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_file_holds_a_path_of_one_machine(project_files: list[Path], root: Path) -> None:
    assert lines_with(ABSOLUTE_PATH, project_files, root) == []


def test_no_file_names_a_registry(project_files: list[Path], root: Path) -> None:
    assert lines_with(REGISTRY_HOST, project_files, root) == []


def test_git_ignores_all_that_the_quickstart_leaves_in_a_clone(root: Path, tmp_path: Path) -> None:
    git = shutil.which("git")
    assert git is not None, "this asks git: apt-get install -y git"
    page = (root / "docs" / "quickstart.md").read_text()
    saved = re.findall(r"^# (\w+\.py)$", page, re.MULTILINE)
    beside = ("", "-shm", "-wal")
    left = [*saved, *re.findall(r"\w+\.state", page), "strandline.db.lock"]
    left += [f"{name}{more}" for name in ("strandline.db", "orders.log") for more in beside]
    assert len(saved) == 3
    subprocess.run([git, "init", "--quiet", str(tmp_path)], check=True)
    shutil.copy(root / ".gitignore", tmp_path)
    done = subprocess.run([git, "check-ignore", *left], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert sorted(set(left)) == sorted(set(done.stdout.split()))
