"""What the cache knows of one pod."""

from schedcache.model import Pod


class PodState:
    """A cached pod. `deadline` (clock's seconds, None = never) counts once the binding has finished."""

    __slots__ = ("binding_finished", "deadline", "pod")

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.deadline: float | None = None
        self.binding_finished = False
