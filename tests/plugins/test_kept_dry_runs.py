"""What is kept of dry runs is what a dry run of all rows says, whatever has happened in between."""

import random

from schedcache.cache import SchedulerCache, Snapshot
from schedcache.framework import Code, FitError, PluginError
from schedcache.plugins.preemption import kept_dry_runs
from schedcache.plugins.preemption.budgets import Budgets
from schedcache.plugins.preemption.dry_run import dry_run
from schedcache.plugins.preemption.kept_dry_runs import KeptDryRuns
from tests.plugins.preemptions import Cluster, budget, node, pod, random_pod

KIND = "PodDisruptionBudget"


class Changing:
    """A cluster that things happen to."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.cache = SchedulerCache()
        self.number = 0
        self.withdrawn = []
        self.cluster = Cluster([], [])
        self.cluster.snapshot = Snapshot()
        self.budgets = Budgets(self.cluster.objects)
        self.kept = KeptDryRuns(self.budgets)
        for _ in range(12):
            self.add_node()
        for _ in range(70):
            self.add_pod()

    def _name(self):
        self.number += 1
        return f"x{self.number}"

    def _nodes(self):
        return [info.node for info in self.cache.nodes.values() if info.node is not None]

    def _pods(self):
        return [pod for info in self.cache.nodes.values() for pod in info.pods]

    def happen(self):
        return self.rng.choice(
            [
                self.add_node,
                self.remove_node,
                *[self.add_pod] * 5,
                *[self.remove_pod] * 3,
                *[self.nominate, self.forget_a_nomination] * 2,
                self.change_budget,
                lambda: None,
            ]
        )()

    def add_node(self):
        self.cache.add_node(node(self._name(), self.rng.choice("abc"), pods=self.rng.choice(["3", "110"])))

    def remove_node(self):
        nodes = self._nodes()
        if len(nodes) > 3:
            self.cache.remove_node(self.rng.choice(nodes))

    def add_pod(self):
        on = self.rng.choice(self._nodes()).name
        self.cache.add_pod(
            random_pod(
                self.rng, self._name(), self.rng.choice([-5, 0, 0, 5, 100]), on=on, apart=self.rng.random() < 0.02
            )
        )

    def remove_pod(self):
        if pods := self._pods():
            self.cache.remove_pod(self.rng.choice(pods))

    def nominate(self):
        if self.withdrawn and self.rng.random() < 0.5:
            self.cluster.nominations.add(*self.withdrawn.pop())
            return
        on = self.rng.choice(self._nodes()).name
        self.cluster.nominations.add(
            random_pod(self.rng, self._name(), self.rng.choice([5, 50]), apart=self.rng.random() < 0.02), on
        )

    def forget_a_nomination(self):
        nominations = self.cluster.nominations
        nodes = nominations.nominated_nodes()
        if guests := [(guest, name) for name in nodes for guest in nominations.nominated_pods_for_node(name)]:
            self.withdrawn.append(self.rng.choice(guests))
            nominations.delete(self.withdrawn[-1][0])

    def change_budget(self):
        objects, name = self.cluster.objects, self.rng.choice(["b1", "b2"])
        known = {held.name: held for held in objects.list(KIND)}
        new = budget(name, self.rng.randint(0, 2), self.rng.choice("ab"))
        if name not in known:
            objects.add(KIND, new)
        elif self.rng.random() < 0.3:
            objects.remove(KIND, known[name])
        else:
            objects.update(KIND, new)

    def look(self, preemptor):
        """(rows tried, what is kept says, what a dry run says); None where the pod fits, or nothing can be evicted for it."""
        cluster = self.cluster
        self.cache.update_snapshot(cluster.snapshot)
        nominated = cluster.nominations.nominated_pods_for_node
        try:
            cluster.framework.schedule(preemptor, cluster.snapshot, nominated, random.Random(0))
        except PluginError:
            return None
        except FitError as error:
            state, rows = error.state, error.diagnosis.statuses.rows_with(Code.UNSCHEDULABLE)
        else:
            return None
        rows = rows[[self.rng.random() < 0.9 for _ in rows]]
        kept = told(cluster.snapshot, *self.kept.run(cluster.framework, state, preemptor, cluster.snapshot, rows))
        plain = told(
            cluster.snapshot, *dry_run(cluster.framework, state, preemptor, cluster.snapshot, rows, self.budgets)
        )
        return len(rows), kept, plain


def told(snapshot, candidates, hopeless):
    names = snapshot.columns.names
    found = {
        names[row]: hopeless.table[i] for row, i in zip(hopeless.rows.tolist(), hopeless.ids.tolist(), strict=True)
    }
    for position in range(0 if candidates is None else len(candidates)):
        costs = [int(cost[position]) for cost in candidates.costs]
        found[names[candidates.rows[position]]] = [p.uid for p in candidates.pods(position)], costs
    return found


def test_what_is_kept_is_what_a_dry_run_says(monkeypatch):
    tried, asked, seen = [], 0, set()

    def counted(filters, state, preemptor, snapshot, rows, budgets):
        tried.append(len(rows))
        return dry_run(filters, state, preemptor, snapshot, rows, budgets)

    monkeypatch.setattr(kept_dry_runs, "dry_run", counted)
    preemptors = [pod("one", 10, "3"), pod("two", 10, "3"), pod("big", 10, "3800m", host_ports=[80])]
    for seed in range(12):
        world = Changing(seed)
        for _ in range(200):
            world.happen()
            found = world.look(world.rng.choice(preemptors))
            if found is not None:
                rows, kept, plain = found
                assert kept == plain, seed
                asked += rows
                seen |= {value if value is None else type(value).__name__ for value in kept.values()}
    assert seen == {"tuple", "Status"}, "candidates and hopeless rows"
    assert 0 < sum(tried) < asked / 2
