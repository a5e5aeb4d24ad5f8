"""The requests of many different specs, side by side, so that one comparison shows which of them an amount could satisfy."""

from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np

from schedcache.model import Resource
from schedcache.model.quantity import clamped

Spec = TypeVar("Spec", bound=Hashable)

_FIRST_SLOTS = 64


class RequestColumns(Generic[Spec]):
    """One row per requested resource, one column per spec; a removed column is replaced by the last one."""

    def __init__(self) -> None:
        self._specs: list[Spec] = []
        self._slots: dict[Spec, int] = {}
        self._rows: dict[str, int] = {}
        self._amounts = np.zeros((0, _FIRST_SLOTS), np.int64)

    def add(self, spec: Spec, requests: Resource) -> None:
        """A spec that is not here yet, and what it asks for."""
        slot = len(self._specs)
        if slot == self._amounts.shape[1]:
            self._amounts = np.concatenate((self._amounts, np.zeros_like(self._amounts)), axis=1)
        self._specs.append(spec)
        self._slots[spec] = slot
        self._amounts[:, slot] = 0
        for name, amount in requests.amounts():
            if amount:
                row = self._row(name)
                self._amounts[row, slot] = clamped(amount)

    def remove(self, spec: Spec) -> None:
        """A spec that is here."""
        slot, last = self._slots.pop(spec), self._specs.pop()
        if last is not spec:
            self._specs[slot] = last
            self._slots[last] = slot
            self._amounts[:, slot] = self._amounts[:, len(self._specs)]

    def within(self, room: Resource) -> list[Spec]:
        """The specs that ask for no more than this of anything; the number of pods does not count."""
        limits = dict(room.amounts())
        most = np.array([clamped(limits.get(name, 0)) for name in self._rows], np.int64)
        fitting = (self._amounts[:, : len(self._specs)] <= most[:, np.newaxis]).all(axis=0)
        return [self._specs[slot] for slot in np.flatnonzero(fitting).tolist()]

    def _row(self, name: str) -> int:
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = len(self._rows)
            self._amounts = np.concatenate((self._amounts, np.zeros((1, self._amounts.shape[1]), np.int64)))
        return row
