"""What the queue raises."""


class QueueError(Exception):
    """The queue refused a call; `kind` is stable and meant for programs.

    `already_queued`: `add_unschedulable` found the pod's name in one of the queues; the attempt has ended all the same.
    """

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)
