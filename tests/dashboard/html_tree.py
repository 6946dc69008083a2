"""Pages as trees, read strictly: what is not well made fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})
INLINE = ("style", "on")  # what the policy forbids begins with these


@dataclass
class Element:
    """An element of a page."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element | str] = field(default_factory=list)

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]

    def walk(self) -> Iterator[Element]:
        for each in self.children:
            if isinstance(each, Element):
                yield each
                yield from each.walk()

    def all(self, tag: str, kind: str | None = None, **attributes: str) -> list[Element]:
        """Elements with this tag, class and attributes; `_` in a name stands for `-`."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [
            each
            for each in self.walk()
            if each.tag == tag
            and (kind is None or kind in each.attributes.get("class", "").split())
            and all(each.attributes.get(name) == value for name, value in wanted.items())
        ]

    def one(self, tag: str, kind: str | None = None, **attributes: str) -> Element:
        found = self.all(tag, kind, **attributes)
        assert len(found) == 1, (tag, kind, attributes, len(found))
        return found[0]

    def by_id(self, id: str) -> Element:
        return next(each for each in self.walk() if each.attributes.get("id") == id)

    @property
    def text(self) -> str:
        """The text as people see it."""
        return " ".join("".join(self._texts()).split())

    def _texts(self) -> Iterator[str]:
        apart = "" if self.tag in ("a", "b", "code", "label", "span") else " "
        yield apart
        for each in self.children:
            if isinstance(each, Element):
                yield from each._texts() if each.tag not in ("title", "script") else ()
            else:
                yield each
        yield apart

    def rows(self, table: str) -> list[dict[str, str]]:
        """The rows of a table by the labels of its heads."""
        found = [each for each in self.walk() if each.attributes.get("id") == f"{table}-table"]
        if not found:
            return []
        heads = [each.text for each in found[0].all("th")]
        return [
            dict(zip(heads, (cell.text for cell in row.all("td")), strict=True))
            for row in found[0].one("tbody").all("tr")
        ]

    def section(self, heading: str) -> Element:
        """The part of a page with this heading."""
        return next(each for each in self.all("section") if heading in [h.text for h in each.all("h2")])

    def tiles(self) -> dict[str, str]:
        """What tiles say, by name."""
        return {each.one("dt").text: each.all("dd")[0].text for each in self.all("div", "tile")}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("")
        self._open = [self.root]
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, {name: value or "" for name, value in attrs})
        assert len(made.attributes) == len(attrs), f"an attribute twice: {attrs}"
        assert not any(name.startswith(INLINE) for name in made.attributes), f"inline: {attrs}"
        assert tag not in ("style", "iframe", "object", "embed", "base"), tag
        assert tag != "script" or made.attributes.get("src") == "/static/dashboard.js"
        if "id" in made.attributes:
            self.ids.append(made["id"])
        self._open[-1].children.append(made)
        if tag not in VOID:
            self._open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"{tag} closes {self._open[-1].tag}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        assert self._open[-1].tag != "script" or not data.strip(), "an inline script"
        self._open[-1].children.append(data)

    def end(self) -> Element:
        self.close()
        assert self._open == [self.root], f"left open: {self._open[-1].tag}"
        twice = {each for each in self.ids if self.ids.count(each) > 1}
        assert not twice, f"ids twice: {twice}"
        return self.root


def read(text: str) -> Element:
    """The tree of a page or a part of one."""
    reader = _Reader()
    reader.feed(text)
    return reader.end()
