"""What is on `/metrics`."""

from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.scheduler_process import SchedulerProcess


class Figures:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        self._values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        self.types: dict[str, str] = {}
        for family in text_string_to_metric_families(text):
            self.types[family.name] = family.type
            for sample in family.samples:
                self._values[sample.name, frozenset(sample.labels.items())] = sample.value

    def of(self, name: str, /, **labels: str) -> float:
        """A sample's value; KeyError where there is none with exactly these labels."""
        return self._values[name, frozenset(labels.items())]

    def labels(self, name: str) -> set[frozenset[tuple[str, str]]]:
        """The labels of every sample of that name."""
        return {labels for found, labels in self._values if found == name}


async def figures(scheduler: SchedulerProcess) -> Figures:
    status, text = await scheduler.get("/metrics")
    assert status == 200
    return Figures(text)
