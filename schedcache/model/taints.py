"""Taints and tolerations, as of `k8s.io/component-helpers/scheduling/corev1` 1.37 (comparison operators are off by default)."""

import msgspec

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
TAINT_NODE_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


class Taint(msgspec.Struct, frozen=True, order=True, gc=False):
    """A taint, which keeps away pods that do not tolerate it."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Toleration(msgspec.Struct, frozen=True, order=True, gc=False):
    """An empty key with Exists tolerates every taint, an empty effect every effect."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return self.operator in ("", "Equal") and self.value == taint.value


def tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    """Whether any of the tolerations covers the taint."""
    return any(t.tolerates(taint) for t in tolerations)
