"""Makes the pages of docs into a set of web pages that needs no network: `make site`.

The Markdown is copied into `.site/source` in the folders that it has in the project, so that its links lead where they
lead there, together with the files that it links to. A page for each public package comes on top, from its docstrings.
The order of the pages is that of docs/README.md. Zensical makes `.site/pages` of that, and fails for a link that leads
nowhere.
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.environment import SetupError, run, say, separate

ROOT: Final = Path(__file__).resolve().parents[1]
OF_THE_PROJECT: Final = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
# What users import: docs/support.md promises to keep it.
PUBLIC: Final = (
    "writer_client",
    "reader_client",
    "spark_integration",
    "strandline.logs",
    "strandline.logs.sqlite",
    "strandline.logs.kafka",
    "strandline.testing",
)
PYTHON_PAGES: Final = "docs/reference/python"

LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BLOCK: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PYTHON_PAGE: Final = """# {module}

::: {module}
    options:
      allow_inspection: false
      docstring_style: null
      filters: ["!^_"]
      group_by_category: false
      heading_level: 2
      inherited_members: true
      members: [{names}]
      members_order: __all__
      preload_modules: [strandline]
      separate_signature: true
      show_bases: false
      show_root_heading: false
      show_root_toc_entry: false
      show_signature_annotations: true
      show_source: false
"""

Nav = list[dict[str, "str | Nav"]]


def main() -> int:
    work = ROOT / ".site"
    try:
        with separate("site") as python:
            shutil.rmtree(work / "pages", ignore_errors=True)
            count = stage(ROOT, work / "source")
            (work / "zensical.toml").write_text(configuration(ROOT))
            say(f"strandline: making the pages of {count} files")
            zensical = (python.parent / "zensical", "build", "--strict", "--clean")
            run("zensical", *zensical, "--config-file", work / "zensical.toml")
    except (SetupError, OSError) as error:
        print(f"strandline: {error}", file=sys.stderr)
        return 1
    say("strandline: open .site/pages/index.html; for the search: python3 -m http.server --directory .site/pages")
    return 0


def pages(root: Path) -> list[str]:
    """The Markdown pages, by their paths in the project."""
    found = ["README.md", *OF_THE_PROJECT]
    return found + sorted(file.relative_to(root).as_posix() for file in (root / "docs").rglob("*.md"))


def stage(root: Path, folder: Path) -> int:
    """Copies the pages and what they link to, and adds those of the public packages; how many files these are."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in pages(root):
        text = (root / name).read_text()
        for link in linked(text):
            target = (root / name).parent.joinpath(link).resolve()
            if target.is_dir():
                copy_folder(root, target, folder)
                text = text.replace(f"]({link})", f"]({link}/index.md)")
            elif target.suffix != ".md":
                copy(target, folder / target.relative_to(root))
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for module in PUBLIC:
        page = folder / PYTHON_PAGES / f"{module}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(PYTHON_PAGE.format(module=module, names=", ".join(public_names(root, module))))
    return sum(file.is_file() for file in folder.rglob("*"))


def linked(text: str) -> Iterator[str]:
    """The files and folders of the project that a page links to, or shows, by their paths beside it."""
    for link in LINK.findall(BLOCK.sub("", text)):
        path = link.partition("#")[0]
        if path and "://" not in path and not path.startswith("mailto:"):
            yield path


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def copy_folder(root: Path, source: Path, folder: Path) -> None:
    """Copies what is in a folder that a page links to, with a page that lists it: a set of files has no listings."""
    name = source.relative_to(root).as_posix()
    files = sorted(file for file in source.rglob("*") if file.is_file())
    for file in files:
        copy(file, folder / file.relative_to(root))
    lines = [f"- [{path}]({path})" for path in (file.relative_to(source).as_posix() for file in files)]
    (folder / name / "index.md").write_text("\n".join([f"# {name}", "", *lines, ""]))


def public_names(root: Path, module: str) -> list[str]:
    """The names that a package imports under their own name, to offer them, in order; where there is none, the
    classes."""
    path = root.joinpath(*module.split("."))
    tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())
    lines = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    offered = sorted(each.name for line in lines for each in line.names if each.asname == each.name)
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return [name for name in offered or classes if not name.startswith("_")]


def navigation(root: Path) -> Nav:
    """The pages in the order of docs/README.md, and behind them those that it does not list."""
    sections: Nav = [{"Home": "README.md"}, {"All pages": "docs/README.md"}]
    here = sections
    for line in (root / "docs" / "README.md").read_text().splitlines():
        if line.startswith("## "):
            here = []
            sections.append({line.removeprefix("## "): here})
            if line == "## Reference":
                here.append({"Python": [{module: f"{PYTHON_PAGES}/{module}.md"} for module in PUBLIC]})
        for link in LINK.findall(line):
            here.append(decisions(root) if link == "decisions/README.md" else entry(root, f"docs/{link}"))
    sections.append({"Project": [entry(root, name) for name in OF_THE_PROJECT]})
    return sections


def entry(root: Path, page: str) -> dict[str, str | Nav]:
    """A page under its first heading."""
    return {(root / page).read_text().partition("\n")[0].removeprefix("# "): page}


def decisions(root: Path) -> dict[str, str | Nav]:
    """The notes on decisions, by number, below their index."""
    notes = sorted((root / "docs" / "decisions").glob("0*.md"))
    index: dict[str, str | Nav] = {"Decisions": "docs/decisions/README.md"}
    return {"Decisions": [index, *(entry(root, note.relative_to(root).as_posix()) for note in notes)]}


def configuration(root: Path) -> str:
    """What Zensical is told: tools/website.toml, and what depends on the project."""
    before, _, rest = (root / "tools" / "website.toml").read_text().partition("\n[project.theme]")
    handler = "[project.plugins.mkdocstrings.handlers.python]"
    nav = inline(navigation(root))
    return (
        f'{before}\ndocs_dir = "source"\nsite_dir = "pages"\nnav = {nav}\n\n[project.theme]{rest}\n'
        f"{handler}\npaths = [{quoted(str(root))}]\n"
    )


def inline(nav: Nav) -> str:
    """A navigation as a value of TOML."""
    entries = (
        f"{{ {quoted(title)} = {quoted(what) if isinstance(what, str) else inline(what)} }}"
        for each in nav
        for title, what in each.items()
    )
    return f"[{', '.join(entries)}]"


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


if __name__ == "__main__":
    sys.exit(main())
