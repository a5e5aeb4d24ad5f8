"""kube-scheduler's default plugins: a module here is a plugin, under its upstream name; packages hold what plugins share.

Promises: the verdicts, reasons, scores and hints of kube-scheduler 1.37.2, held to its recorded answers, arithmetic and
wording included. A plugin's answer depends on what it was given alone (pod, view, cluster objects, arguments): the same code
serves all nodes, one node, and nodes with pods added or removed in thought.

May touch: the framework by its door, the columns of a view and the cluster objects of its `Handle`. No plugin imports another.
Only DefaultBinder acts on the world, through the handle's binder.

Start reading with `node_unschedulable` or `taint_toleration`, which are small and whole; then `node_resources_fit` for amounts and
`pod_topology_spread` for counts by domain. `default_plugins` has the registry of them all; docs/plugins.md tells how one is written.
"""
