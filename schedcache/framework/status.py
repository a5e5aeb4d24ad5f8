"""What a plugin answers: kube-scheduler's framework.Status, without its locking."""

import enum

import msgspec


class Code(enum.IntEnum):
    """kube-scheduler's status codes; the numbers are its own."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def label(self) -> str:
        """The name as Kubernetes writes it, e.g. in metrics."""
        return _LABELS[self]


_LABELS = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}


_REJECTIONS = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)


class Status(msgspec.Struct, frozen=True, gc=False):
    """A plugin's answer. None stands for success everywhere a Status is returned.

    `plugin` is filled in by the runtime. Raises TypeError for reasons that are not a tuple, such as a single string.
    """

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    def __post_init__(self) -> None:
        # Statuses are numbered by their hash, and a string in place of a tuple would be read letter by letter.
        if not isinstance(self.reasons, tuple):
            raise TypeError(f"reasons: expected a tuple of strings, got {self.reasons!r}")

    @property
    def rejected(self) -> bool:
        """The pod cannot be placed as things are, and that is no fault."""
        return self.code in _REJECTIONS

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)


def unschedulable(*reasons: str) -> Status:
    """The node may fit once pods have left it."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """No eviction of pods would make the node fit."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


SKIP = Status(Code.SKIP)
