"""Terms and shapes filed by label, so that each leads to the few of the other that can go with it."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import chain
from typing import Generic, TypeVar

from schedcache.model import LabelSelector, PodShape, Requirement
from schedcache.model.labels import IN

T = TypeVar("T", bound=Hashable)
V = TypeVar("V")


class TermFile(Generic[T]):
    """Terms filed so that a pod's labels lead to the few that can match it.

    A term lies under each value of one requirement of the form "label in values" (equality is one value), the one whose
    drawers are emptiest; a term without such a requirement is looked at for every pod.
    """

    def __init__(self) -> None:
        self._drawers: dict[tuple[str, str], dict[T, None]] = {}
        self._catch_all: dict[T, None] = {}
        self._filed_under: dict[T, Requirement | None] = {}

    def add(self, item: T, selector: LabelSelector) -> None:
        self._put(item, min(_equalities(selector), key=self._crowd, default=None))

    def discard(self, item: T) -> None:
        chosen = self._filed_under.pop(item)
        if chosen is None:
            del self._catch_all[item]
            return
        for value in dict.fromkeys(chosen.values):
            drawer = self._drawers[chosen.key, value]
            del drawer[item]
            if not drawer:
                del self._drawers[chosen.key, value]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[T]:
        """Every term that can match a pod of these labels, each once."""
        yield from self._catch_all
        if self._drawers:
            for pair in labels.items():
                yield from self._drawers.get(pair, ())

    def problems(self, selectors: Mapping[T, LabelSelector]) -> list[str]:
        """What differs from a file of these terms, each where it was put; one line each."""
        fresh: TermFile[T] = TermFile()
        missing, strange = selectors.keys() - self._filed_under.keys(), self._filed_under.keys() - selectors.keys()
        found = [f"{len(missing)} not filed, {len(strange)} filed that do not exist"] if missing or strange else []
        for item, chosen in self._filed_under.items():
            fresh._put(item, chosen)
            own: Sequence[Requirement | None] = _equalities(selectors[item]) if item in selectors else (chosen,)
            if chosen not in (own or (None,)):
                found.append(f"filed under {chosen}, which its selector does not ask for")
        if self._catch_all != fresh._catch_all:
            found.append(f"{len(self._catch_all)} under no label, expected {len(fresh._catch_all)}")
        return found + _misfiled(self._drawers, fresh._drawers)

    def _put(self, item: T, chosen: Requirement | None) -> None:
        self._filed_under[item] = chosen
        if chosen is None:
            self._catch_all[item] = None
        else:
            for value in dict.fromkeys(chosen.values):
                self._drawers.setdefault((chosen.key, value), {})[item] = None

    def _crowd(self, requirement: Requirement) -> int:
        return sum(1 + len(self._drawers.get((requirement.key, value), ())) for value in set(requirement.values))


class ShapeFile(Generic[V]):
    """Placed shapes of one namespace with a value each, filed so that a term's selector leads to the few it can match.

    They are filed by a label key once a term asks for values of it, and as long as some shape has it: most keys are never
    asked about, and each takes about 250 bytes a shape where every shape has a value of its own (60 where they share one).
    """

    __slots__ = ("_by_key", "shapes")

    def __init__(self) -> None:
        self.shapes: dict[PodShape, V] = {}
        self._by_key: dict[str, dict[str, dict[PodShape, V]]] = {}

    def add(self, shape: PodShape, value: V) -> None:
        self.shapes[shape] = value
        if self._by_key:
            for key, label in shape.labels.items():
                by_value = self._by_key.get(key)
                if by_value is not None:
                    by_value.setdefault(label, {})[shape] = value

    def discard(self, shape: PodShape) -> None:
        del self.shapes[shape]
        if self._by_key:
            for key, label in shape.labels.items():
                by_value = self._by_key.get(key)
                if by_value is not None:
                    drawer = by_value[label]
                    del drawer[shape]
                    if not drawer:
                        del by_value[label]
                    if not by_value:
                        del self._by_key[key]

    def candidates(self, selector: LabelSelector) -> Iterable[tuple[PodShape, V]]:
        """Every shape that the selector can match, each once, with its value."""
        by_requirement = [self._drawers(requirement) for requirement in _equalities(selector)]
        if not by_requirement:
            return self.shapes.items()
        fewest = min(by_requirement, key=lambda drawers: sum(map(len, drawers)))
        return chain.from_iterable(drawer.items() for drawer in fewest)

    def problems(self) -> list[str]:
        """What differs if the shapes are filed again by the same keys, one line each."""
        found = []
        for key, by_value in self._by_key.items():
            fresh = self._filed(key)
            if not fresh:
                found.append(f"filed by {key}, which no shape has")
            found += _misfiled({(key, v): d for v, d in by_value.items()}, {(key, v): d for v, d in fresh.items()})
        return found

    def _drawers(self, requirement: Requirement) -> list[dict[PodShape, V]]:
        by_value = self._by_key.get(requirement.key)
        if by_value is None:
            by_value = self._filed(requirement.key)
            # A key that no shape has is not kept: there is no end of keys that pods can ask for.
            if by_value:
                self._by_key[requirement.key] = by_value
        return [by_value[value] for value in dict.fromkeys(requirement.values) if value in by_value]

    def _filed(self, key: str) -> dict[str, dict[PodShape, V]]:
        by_value: dict[str, dict[PodShape, V]] = {}
        for shape, value in self.shapes.items():
            label = shape.labels.get(key)
            if label is not None:
                by_value.setdefault(label, {})[shape] = value
        return by_value


def _equalities(selector: LabelSelector) -> list[Requirement]:
    return [requirement for requirement in selector.requirements if requirement.operator == IN]


def _misfiled(kept: Mapping[tuple[str, str], Sized], fresh: Mapping[tuple[str, str], Sized]) -> list[str]:
    wrong = sorted(pair for pair in kept.keys() | fresh.keys() if kept.get(pair) != fresh.get(pair))
    return [
        f"misfiled under {key}={value}: {len(kept.get((key, value), ()))}, expected {len(fresh.get((key, value), ()))}"
        for key, value in wrong
    ]
