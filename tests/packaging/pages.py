"""The pages that people read, taken apart: links, headings, code spans, blocks, tables."""

import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ("docs/api.md", "charts/schedcache/README.md")
"""Written by a program, which has its own test: only their links are looked at."""

_FENCED = re.compile(r"^ *```(?P<language>\w*)(?: (?P<file>\S+))?\n(?P<code>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


class Block(NamedTuple):
    """A fenced block of code; `line` is the number of its first line."""

    page: str
    language: str
    code: str
    line: int

    def commands(self) -> list[str]:
        """Its lines as a shell takes them: continued ones joined, comments and empty ones left out."""
        lines = self.code.replace("\\\n", " ").splitlines()
        return [line for raw in lines if (line := re.sub(r"\s+#\s.*$", "", raw).strip()) and line[0] != "#"]


@cache
def names() -> tuple[str, ...]:
    """Every page, by its path from the root."""
    found = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("charts/*/README.md"),
        *ROOT.glob("examples/*/README.md"),
        *ROOT.glob("bench/**/*.md"),
    ]
    return tuple(sorted(str(path.relative_to(ROOT)) for path in found))


def written() -> list[str]:
    """The pages that people write."""
    return [name for name in names() if name not in GENERATED]


@cache
def text(page: str) -> str:
    """A page as it is."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    """The fenced blocks, in order."""
    whole = text(page)
    return [
        Block(page, found["language"], textwrap.dedent(found["code"]), whole.count("\n", 0, found.start("code")) + 1)
        for found in _FENCED.finditer(whole)
    ]


def without_fences(page: str) -> str:
    """The page without its blocks."""
    return _FENCED.sub("", text(page))


def prose(page: str) -> str:
    """The page without its blocks, on one line: what a sentence is looked for in."""
    return re.sub(r"\s+", " ", without_fences(page))


def spans(page: str) -> list[str]:
    """The `code spans`, each once, in order."""
    found = _SPAN.findall(without_fences(page))
    return list(dict.fromkeys(span.replace("\\|", "|") for span in found))


def section(page: str, heading: str) -> str:
    """What stands under a heading, up to the next one of the same depth or above."""
    depth = len(heading) - len(heading.lstrip("#"))
    parts = text(page).split(f"\n{heading}\n")
    assert len(parts) == 2, f"{page} has {len(parts) - 1} headings {heading!r}"
    return re.split(rf"\n#{{1,{depth}}} ", parts[1])[0]


def rows(markdown: str) -> Iterator[list[str]]:
    """The rows of its tables, but for headings, as cells."""
    for line in markdown.splitlines():
        if line.startswith("|") and not re.fullmatch(r"[|\s:-]+", line):
            yield [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def anchors(page: str) -> set[str]:
    """What `#...` may name on the page, as GitHub makes it of headings."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", without_fences(page), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        number = next(n for n in range(100) if (slug if n == 0 else f"{slug}-{n}") not in found)
        found.add(slug if number == 0 else f"{slug}-{number}")
    return found


def links(page: str) -> list[str]:
    """Where the page's links lead."""
    bare = _SPAN.sub("", without_fences(page))
    return re.findall(r"\]\(([^)\s]+)\)", bare)
