"""kube-scheduler's default plugins: a module here is a plugin, under its upstream name; packages hold what plugins share.

Promises: the verdicts, reasons, scores and hints of kube-scheduler 1.37.2, including arithmetic and wording, tested against its
recorded answers. A plugin's answer depends only on its input (pod, view, cluster objects, arguments): the same code serves all
nodes, one node, and nodes with pods hypothetically added or removed.

May touch: the framework's public names, the columns of a view and the cluster objects of its `Handle`. No plugin imports another.
Only DefaultBinder acts on the world, through the handle's binder.

Start reading with `node_unschedulable` or `taint_toleration`, which are small; then `node_resources_fit` for amounts and
`pod_topology_spread` for counts by domain. `default_plugins` has the registry of them all; docs/plugins.md says how to write one.
"""
