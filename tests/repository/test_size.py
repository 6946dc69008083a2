"""No function grows so long that it cannot be read in one go, in tests and tools too."""

import ast
from pathlib import Path

from tests.repository.syntax import statements

LINES_OF_A_FUNCTION = 70


def functions(source: str) -> list[tuple[str, int]]:
    """Name and number of lines of each function, docstring included."""
    return [
        (node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in statements(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def test_no_function_is_longer_than_70_lines(python_files: list[Path], root: Path) -> None:
    lengths = {
        f"{file.relative_to(root)}: {name}": lines
        for file in python_files
        if (text := file.read_text()).count("\n") > LINES_OF_A_FUNCTION
        for name, lines in functions(text)
    }
    assert {name: lines for name, lines in lengths.items() if lines > LINES_OF_A_FUNCTION} == {}


def test_the_length_of_a_function_counts_its_docstring_and_nested_functions() -> None:
    source = 'def outer():\n    """One.\n\n    Two.\n    """\n\n    async def inner():\n        pass\n'
    assert functions(source) == [("outer", 8), ("inner", 2)]
