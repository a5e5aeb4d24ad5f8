"""The error for a malformed Kubernetes object."""


class MalformedObjectError(ValueError):
    """An object that cannot be read; names the object, the field and what was expected there.

    `field` is a path as Kubernetes writes it (`spec.containers[0].resources.requests.cpu`).
    """

    def __init__(self, kind: str, name: str, field: str, problem: str) -> None:
        self.kind = kind
        self.name = name
        self.field = field
        self.problem = problem
        where = f"{kind} {name}" if name else f"{kind} without name"
        super().__init__(f"{where}: {field}: {problem}" if field else f"{where}: {problem}")
