"""A rule may be broken for a reason, and the reason stands on the line."""

import io
import re
import tokenize
from pathlib import Path

EXCEPTION = re.compile(r"#\s*(?:noqa|type:\s*ignore|mypy:|pragma:|ruff:|nosec)", re.IGNORECASE)
# The exception, what it excepts, and then a comment of its own of at least two words.
WITH_REASON = re.compile(EXCEPTION.pattern + r"[^#]*#\s*(?!noqa|type:)\S+\s+\S+", re.IGNORECASE)
PER_FILE = "[tool.ruff.lint.per-file-ignores]"
SETTINGS_THAT_EXCEPT = re.compile(r"^(?:ignore|extend-ignore|ignore_\w+|disable_error_code|follow_\w+)\s*=")


def comments(source: str) -> list[tuple[int, str]]:
    """The comments of a module, each with its line: text in strings does not count."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]


def is_unexplained(comment: str) -> bool:
    """Whether a comment makes an exception and does not say why."""
    return EXCEPTION.search(comment) is not None and WITH_REASON.search(comment) is None


def test_every_exception_in_the_code_has_its_reason_on_the_line(python_files: list[Path], root: Path) -> None:
    unexplained = [
        f"{file.relative_to(root)}:{line}: {comment}"
        for file in python_files
        if EXCEPTION.search(text := file.read_text())  # to find the comments of all files takes seconds
        for line, comment in comments(text)
        if is_unexplained(comment)
    ]
    assert unexplained == []


def unexplained_settings(text: str) -> list[str]:
    """The lines of a TOML file that switch a rule off without saying why, in a list entry by entry."""
    table, within_list, unexplained = "", False, []
    for line in text.splitlines():
        if line.startswith("["):
            table = line
        excepts = SETTINGS_THAT_EXCEPT.match(line) or (table == PER_FILE and "=" in line)
        if (excepts and not line.endswith("[")) or (within_list and line != "]"):
            unexplained += [line.strip()] if " # " not in line else []
        within_list = line != "]" if within_list else bool(excepts and line.endswith("["))
    return unexplained


def test_every_exception_in_pyproject_has_its_reason_on_the_line(root: Path) -> None:
    assert unexplained_settings((root / "pyproject.toml").read_text()) == []


def test_a_test_that_is_skipped_says_how_it_would_run(python_files: list[Path], root: Path) -> None:
    """`tests/summary.py` has the one way to skip for what is missing: it asks for the command that the summary shows.

    A mark is for what no command brings: another operating system.
    """
    skipping = re.compile(r"pytest\.(?:skip|importorskip)\(|pytest\.mark\.skip\b")
    own = {root / "tests" / "summary.py", Path(__file__)}
    assert [
        str(file.relative_to(root)) for file in python_files if file not in own and skipping.search(file.read_text())
    ] == []
