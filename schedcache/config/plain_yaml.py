"""YAML read as Kubernetes reads it: what JSON can hold, and no key twice."""

from typing import Any

import yaml


class PlainYAMLError(ValueError):
    """A text that is no YAML, or says what JSON cannot; the message begins with the line where there is one."""


def documents(text: str) -> list[Any]:
    """The documents of a text, JSON included; an empty one is None. Raises PlainYAMLError."""
    try:
        return list(yaml.load_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark is not None else ""
        context = f", {error.context}" if error.context else ""
        raise PlainYAMLError(f"{line}{error.problem}{context}") from None
    except yaml.YAMLError as error:
        raise PlainYAMLError(" ".join(str(error).split())) from None
    except RecursionError:
        raise PlainYAMLError("nested too deeply") from None


class _Loader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]  # both load alike, one is fast
    """Unquoted times stay texts, keys are texts whatever they look like."""

    yaml_implicit_resolvers = {  # noqa: RUF012  PyYAML's own attribute
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

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
                raise yaml.constructor.ConstructorError(None, None, f"key {key.value!r} is there twice", key.start_mark)
            seen.add(key.value)
        super().flatten_mapping(node)


_MERGE = "tag:yaml.org,2002:merge"
_TEXT = "tag:yaml.org,2002:str"
