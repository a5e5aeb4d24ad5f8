"""Reads YAML as Kubernetes does: scalars as in its YAML library, only what JSON can hold, and no duplicate keys.

`yes` and `on` are booleans, `1e3` is a number, `1:30` and dates are strings; a whole number is an integer however it is written.
There is one difference: `y` and `n` stay strings, since they are names of nodes more often than booleans.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml


class PlainYAMLError(ValueError):
    """The text is not YAML, or has values that JSON cannot express; the message begins with the line if it is known."""


class Document(NamedTuple):
    """The value of one document, None for an empty one, and the nodes that it was made from, which know their lines."""

    value: Any
    root: yaml.Node | None


def documents(text: str) -> Iterator[Document]:
    """The documents of a text, JSON included. Raises PlainYAMLError."""
    loader = _Loader(_spaced(text))
    try:
        while loader.check_node():
            root = loader.get_node()
            yield Document(loader.construct_document(root), root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark is not None else ""
        context = f", {error.context}" if error.context else ""
        raise PlainYAMLError(f"{line}{error.problem}{context}") from None
    except yaml.YAMLError as error:
        raise PlainYAMLError(" ".join(str(error).split())) from None
    except RecursionError:
        raise PlainYAMLError("nested too deeply") from None
    finally:
        loader.dispose()


def _spaced(text: str) -> str:
    """JSON may be indented with tabs, YAML may not; JSON strings contain none."""
    if "\t" not in text or not text.lstrip().startswith("{"):
        return text
    try:
        json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return text
    return text.replace("\t", " ")


_MERGE = "tag:yaml.org,2002:merge"
_TEXT = "tag:yaml.org,2002:str"
_NULL = "tag:yaml.org,2002:null"
_BOOL = "tag:yaml.org,2002:bool"
_INT = "tag:yaml.org,2002:int"
_NUMBER = "tag:yaml.org,2002:float"

_TRUE = frozenset({"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_BOOLEAN = re.compile(f"(?:{'|'.join(sorted(_TRUE | _FALSE))})$")
_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)$")
_DECIMAL = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$")
_LIKE_A_NUMBER = re.compile(r"[-+]?[.0-9][0-9a-fA-FxXoO_.+-]*$|" + _NOT_FINITE.pattern)
"""This matches some strings too, which are told apart when the value is made."""
_LARGEST = 2**63
"""Beyond this, a whole number written with a point or an exponent stays a float, since not all of its digits are known."""


def _resolvers() -> dict[str | None, list[tuple[str, re.Pattern[str]]]]:
    """By first character, as PyYAML wants them: which scalars are not strings."""
    found: dict[str | None, list[tuple[str, re.Pattern[str]]]] = {}
    for first in "yYnNtTfFoO":
        found.setdefault(first, []).append((_BOOL, _BOOLEAN))
    for first in "-+.0123456789":
        found.setdefault(first, []).append((_NUMBER, _LIKE_A_NUMBER))
    for first in ("~", "n", "N", ""):
        found.setdefault(first, []).append((_NULL, re.compile(r"(?:~|null|Null|NULL|)$")))
    found["<"] = [(_MERGE, re.compile(r"<<$"))]
    return found


class _Loader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]  # both load alike, one is fast
    """Keys are strings whatever they look like."""

    yaml_implicit_resolvers = _resolvers()

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._merged: set[int] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """PyYAML's step before a mapping is made, in which `<<` is resolved; a mapping may pass it more than once."""
        if id(node) in self._merged:
            return
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.tag == _MERGE:
                self._merged.add(id(node))
                continue
            key.tag = _TEXT
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key {key.value!r}", key.start_mark)
            seen.add(key.value)
        super().flatten_mapping(node)

    def construct_boolean(self, node: yaml.ScalarNode) -> bool:
        """For words that the resolver recognises as booleans."""
        return self.construct_scalar(node) in _TRUE

    def construct_number(self, node: yaml.ScalarNode) -> int | float | str:
        """An integer, a float, or the string if it only looks like a number."""
        text = self.construct_scalar(node)
        digits = text.replace("_", "")
        if _INTEGER.match(digits):
            return _integer(digits)
        if _DECIMAL.match(digits) and math.isfinite(value := float(digits)):
            return int(value) if value.is_integer() and abs(value) < _LARGEST else value
        if _NOT_FINITE.match(digits):
            return float(digits.replace(".", "", 1))
        return str(text)


_Loader.add_constructor(_BOOL, _Loader.construct_boolean)
_Loader.add_constructor(_NUMBER, _Loader.construct_number)
_Loader.add_constructor(_INT, _Loader.construct_number)


def _integer(digits: str) -> int:
    sign, body = (-1, digits[1:]) if digits[0] == "-" else (1, digits.removeprefix("+"))
    base = {"x": 16, "b": 2}.get(body[1:2].lower(), 8 if len(body) > 1 and body[0] == "0" else 10)
    return sign * int(body, base)
