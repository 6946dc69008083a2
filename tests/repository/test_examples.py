"""The examples in docstrings call what they show as it can be called."""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module

import pytest

PACKAGES = ("strandline", "writer_client", "reader_client", "spark_integration")
BLOCK = re.compile(r"(?:^    .*\n?|^\n)+", re.MULTILINE)


def calls_shown(text: str) -> Iterator[ast.Call]:
    """The calls in indented blocks of Python."""
    for block in BLOCK.findall(text):
        try:
            tree = ast.parse(inspect.cleandoc(block.replace("…", "...")))
        except SyntaxError:
            continue
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_call_in_an_example_has_the_arguments_that_it_takes(package: str) -> None:
    public = import_module(package)
    documented = [public, *(getattr(public, name) for name in public.__all__)]
    checked = 0
    for each in documented:
        for call in calls_shown(inspect.getdoc(each) or ""):
            called = getattr(public, call.func.id, None) if isinstance(call.func, ast.Name) else None
            named = {word.arg: word for word in call.keywords if word.arg is not None}
            if callable(called) and len(named) == len(call.keywords):
                inspect.signature(called).bind(*call.args, **named)
                checked += 1
    assert checked
