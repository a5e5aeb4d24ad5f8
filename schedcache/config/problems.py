"""What is wrong with a configuration: every problem at once, with its field, its line if it is known, and a hint."""

from collections.abc import Sequence
from typing import NamedTuple

import yaml

Path = tuple[str | int, ...]


class Problem(NamedTuple):
    """`path` leads from the top of the file to the field."""

    path: Path
    text: str


class ConfigError(ValueError):
    """A configuration that cannot be used; the text has one line per problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(problems))


def dotted(path: Path) -> str:
    """`profiles[0].plugins.score`, as Kubernetes writes field paths."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


class Lines:
    """The lines of a YAML or JSON document, by field; `root` is None if there is no text."""

    def __init__(self, source: str = "", root: yaml.Node | None = None) -> None:
        self._source = source
        self._root = root

    def describe(self, problem: Problem) -> str:
        """One line of an error message."""
        where = dotted(problem.path) or "the configuration"
        line = self.of(problem.path)
        place = f"{self._source}:{line}: " if line else f"{self._source}: " if self._source else ""
        return f"{place}{where}: {problem.text}"

    def of(self, path: Path) -> int:
        """The line of the field, or of the innermost enclosing one that is in the text; 0 without a text."""
        node = self._root
        line = line_of(node) if node is not None else 0
        for step in path:
            found = _child(node, step)
            if found is None:
                return line
            node, line = found
        return line


def line_of(node: yaml.Node) -> int:
    """The line where it begins, counted from 1."""
    return int(node.start_mark.line) + 1


def _child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node, int] | None:
    if isinstance(node, yaml.MappingNode):
        # Merged fields come first, since the mapping's own fields win.
        for key, value in reversed(node.value):
            if key.value == step:
                return value, line_of(key)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], line_of(node.value[step])
    return None
