"""Writes docs/api.md: the public names, as their modules export them, with signature and first paragraph.

What is public is decided by `__all__`; here is only which of the modules that have one the page shows, and in which order.
"""

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import griffe

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "api.md"
CHAPTERS = {
    "Cluster objects": ("schedcache.model",),
    "The cache": ("schedcache.cache",),
    "Plugins": ("schedcache.framework", "schedcache.plugins.default_plugins"),
    "Configuration": ("schedcache.config",),
    "What if": ("schedcache.simulation",),
    "The loop": ("schedcache.ports", "schedcache.queue", "schedcache.scheduling"),
    "The API server": (
        "schedcache.kube.http.credentials",
        "schedcache.kube.http.transport",
        "schedcache.kube.watch.reflector",
        "schedcache.kube.kopf.source",
        "schedcache.kube.write.binder",
        "schedcache.kube.write.event_recorder",
        "schedcache.kube.write.status_writer",
        "schedcache.kube.write.volume_writer",
        "schedcache.kube.write.rate",
        "schedcache.kube.leader_election.elector",
        "schedcache.kube.leader_election.fence",
        "schedcache.kube.leader_election.lease_lock",
        "schedcache.kube.settings",
    ),
    "A whole scheduler": ("schedcache.app", "schedcache.server.limits", "schedcache.server.secure_settings"),
    "The dump": ("schedcache.dump",),
    "Tests": ("schedcache.testing",),
}
INTERNAL = ("schedcache.cache.terms", "schedcache.cli")
"""Modules whose `__all__` is for other packages of this project."""
HEAD = """# API reference

The public names, made from the code by `make docs`. [Stability](stability.md) says what is promised about them;
[embedding](embedding.md) and [plugins](plugins.md) show them at work. Methods that begin with `_` and whatever is not listed here are
internal.
"""
_WIDTH = 110
_LINE = 128
_LONGEST_VALUE = 40


def reference() -> str:
    """The page."""
    package = griffe.load("schedcache", search_paths=[str(ROOT)])
    parts = [HEAD]
    for title, modules in CHAPTERS.items():
        parts.append(f"## {title}\n")
        for name in modules:
            parts.extend(_module(package[name.removeprefix("schedcache.")]))
    return "\n".join(parts)


def _module(module: griffe.Module) -> Iterator[str]:
    yield f"### `{module.path}`\n"
    yield f"{_wrapped(_text(module))}\n"
    found = [_target(module[str(name)]) for name in module.exports or ()]
    constants = [one for one in found if isinstance(one, griffe.Attribute)]
    errors = [one for one in found if isinstance(one, griffe.Class) and one.name.endswith("Error")]
    if constants:
        yield _block([_attribute(one) for one in constants])
    for one in found:
        if isinstance(one, griffe.Class) and one not in errors:
            yield f"#### {one.name}\n"
            yield f"{_wrapped(_text(one, whole=True))}\n"
            yield _block([_class(one)])
        elif isinstance(one, griffe.Function):
            yield f"#### {one.name}\n"
            yield f"{_wrapped(_text(one))}\n"
            yield _block([_signature(one)])
        elif isinstance(one, griffe.Module):
            yield f"#### {one.name}\n"
            yield f"{_wrapped(_text(one))}\n"
            yield _block([_function(member) for member in _functions(one)])
    if errors:
        yield "#### Errors\n"
        rows = [f"| `{error.name}` | {_bases(error)} | {_text(error)} |" for error in errors]
        yield "\n".join(["| error | is a | |", "|---|---|---|", *rows]) + "\n"


def _block(parts: list[str]) -> str:
    return "```python\n" + "\n".join(parts) + "\n```\n"


def _class(cls: griffe.Class) -> str:
    """As a stub would show it, with what is said about a member as a comment."""
    constructor = cls.members.get("__init__")
    if not isinstance(constructor, griffe.Function) or not constructor.lineno:
        constructor = None  # inherited, or made by a decorator out of the fields
    given = {one.name: one.annotation for one in constructor.parameters} if constructor is not None else {}
    fields = [
        _attribute(member, given.get(member.name), _described(cls).get(member.name, ""))
        for member in cls.members.values()
        if isinstance(member, griffe.Attribute) and member.is_public and not member.name.startswith("__")
    ]
    groups = [
        [_signature(constructor)] if constructor is not None else [],
        fields,
        list(map(_function, _functions(cls))),
    ]
    body = "\n\n".join("\n".join(group) for group in groups if group) or "..."
    heading = f"class {cls.name}({_bases(cls)}):" if cls.bases else f"class {cls.name}:"
    return f"{heading}\n{textwrap.indent(body, '    ')}"


def _functions(owner: griffe.Object) -> list[griffe.Function]:
    """The public ones, in the order of the code."""
    functions = [one for one in owner.members.values() if isinstance(one, griffe.Function)]
    return [one for one in functions if one.is_public and not one.name.startswith("__")]


def _function(function: griffe.Function) -> str:
    decorators = "".join(f"@{kind}\n" for kind in ("classmethod", "staticmethod") if kind in function.labels)
    return decorators + _signature(function) + _comment(_text(function))


def _attribute(attribute: griffe.Attribute, given: griffe.Expr | str | None = None, described: str = "") -> str:
    """With its type, else that of the argument which it holds; with its value where that is a default or a constant."""
    annotation = attribute.annotation if attribute.annotation is not None else given
    text = attribute.name + (f": {annotation}" if annotation is not None else "")
    value = str(attribute.value or "")
    constant = not {"property", "instance-attribute"} & attribute.labels or "class-attribute" in attribute.labels
    if constant and 0 < len(value) < _LONGEST_VALUE and "field(" not in value:
        text += f" = {value}"
    return text + _comment(_text(attribute) or described)


def _comment(text: str) -> str:
    lines = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "".join(f"\n    # {line}" for line in lines)


def _signature(function: griffe.Function) -> str:
    """As in the code, without `self`; with a line for each parameter where it is too long for one."""
    parameters = list(_parameters(function))
    returns = f" -> {function.returns}" if function.returns is not None and function.name != "__init__" else ""
    name = f"async def {function.name}" if "async" in function.labels else f"def {function.name}"
    line = f"{name}({', '.join(parameters)}){returns}"
    return line if len(line) < _WIDTH else f"{name}(\n" + "".join(f"    {one},\n" for one in parameters) + f"){returns}"


def _parameters(function: griffe.Function) -> Iterator[str]:
    kinds = griffe.ParameterKind
    given = [one for one in function.parameters if one.name not in ("self", "cls")]
    for number, one in enumerate(given):
        before = {other.kind for other in given[:number]}
        if one.kind is kinds.keyword_only and not before & {kinds.keyword_only, kinds.var_positional}:
            yield "*"
        star = {kinds.var_positional: "*", kinds.var_keyword: "**"}.get(one.kind, "")
        annotation = f": {one.annotation}" if one.annotation is not None else ""
        equals = f" = {one.default}" if one.default is not None and not star else ""
        yield f"{star}{one.name}{annotation}{equals}"
        if one.kind is kinds.positional_only and kinds.positional_only not in {
            other.kind for other in given[number + 1 :]
        }:
            yield "/"


def _target(member: griffe.Object | griffe.Alias) -> griffe.Object:
    return member.final_target if isinstance(member, griffe.Alias) else member


def _bases(cls: griffe.Class) -> str:
    return ", ".join(map(str, cls.bases))


def _text(one: griffe.Object, *, whole: bool = False) -> str:
    """Its first paragraph, on one line; `whole`: all paragraphs before the sections that describe parts."""
    if one.docstring is None:
        return ""
    sections = one.docstring.parse("google", warnings=False)
    told = [str(section.value) for section in sections if section.kind is griffe.DocstringSectionKind.text]
    paragraphs = "\n\n".join(told).split("\n\n")
    return "\n\n".join(map(_paragraph, paragraphs if whole else paragraphs[:1]))


def _paragraph(text: str) -> str:
    """On one line; an example, which is indented, as a block."""
    if text.startswith("    "):
        return f"```python\n{textwrap.dedent(text).rstrip()}\n```"
    return re.sub(r"\s+", " ", text).strip()


def _wrapped(text: str) -> str:
    return "\n\n".join(
        one if one.startswith("```") else textwrap.fill(one, _LINE, break_long_words=False, break_on_hyphens=False)
        for one in text.split("\n\n")
    )


def _described(cls: griffe.Class) -> dict[str, str]:
    """What the class says about its attributes and arguments, by name."""
    kinds = (griffe.DocstringSectionKind.attributes, griffe.DocstringSectionKind.parameters)
    sections = cls.docstring.parse("google", warnings=False) if cls.docstring is not None else []
    told = [item for section in sections if section.kind in kinds for item in section.value]
    return {item.name: re.sub(r"\s+", " ", item.description) for item in told}


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)} is written\n")
