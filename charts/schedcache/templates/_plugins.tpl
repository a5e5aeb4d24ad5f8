{{/*
Names of the default plugins that a profile has, one a line, of all profiles together: those that its set multiPoint does not
disable, and what it enables at any point.
*/}}
{{- define "schedcache.plugins" -}}
{{- $default := list "SchedulingGates" "PrioritySort" "NodeName" "NodeUnschedulable" "TaintToleration" "NodeAffinity" "NodePorts"
  "NodeResourcesFit" "VolumeRestrictions" "NodeVolumeLimits" "VolumeBinding" "VolumeZone" "PodTopologySpread" "InterPodAffinity"
  "DynamicResources" "DefaultPreemption" "NodeResourcesBalancedAllocation" "ImageLocality" "DefaultBinder" "NodeDeclaredFeatures" }}
{{- $on := dict }}
{{- range $profile := default (list dict) .Values.kubeSchedulerConfiguration.profiles }}
{{- $sets := default dict $profile.plugins }}
{{- $off := list }}
{{- range default list (default dict $sets.multiPoint).disabled }}
{{- $off = append $off .name }}
{{- end }}
{{- if not (has "*" $off) }}
{{- range $default }}
{{- if not (has . $off) }}{{ $_ := set $on . true }}{{ end }}
{{- end }}
{{- end }}
{{- range $sets }}
{{- range default list (default dict .).enabled }}
{{- $_ := set $on .name true }}
{{- end }}
{{- end }}
{{- end }}
{{- keys $on | sortAlpha | join "\n" }}
{{- end }}

{{/* What the enabled plugins need, as the rules of a ClusterRole. tests/packaging holds it against what they watch. */}}
{{- define "schedcache.rules" -}}
{{- $on := include "schedcache.plugins" . | splitList "\n" }}
{{- $volumes := or (has "VolumeBinding" $on) (has "NodeVolumeLimits" $on) }}
# The cache: what there is.
- apiGroups: [""]
  resources: [nodes, pods]
  verbs: [list, watch]
{{- if not .Values.observe }}
# Where a pod is whose binding had no clear answer.
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
{{- if has "InterPodAffinity" $on }}
# Which namespaces a term selects (InterPodAffinity).
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
{{- end }}
{{- if has "PodTopologySpread" $on }}
# Who pods belong to (PodTopologySpread).
- apiGroups: [""]
  resources: [services, replicationcontrollers]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [replicasets, statefulsets]
  verbs: [list, watch]
{{- end }}
{{- if or $volumes (has "VolumeZone" $on) (has "VolumeRestrictions" $on) }}
# Volumes, and which nodes reach them.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [list, watch]
{{- end }}
{{- if or $volumes (has "VolumeZone" $on) }}
- apiGroups: [""]
  resources: [persistentvolumes]
  verbs: [list, watch]
- apiGroups: [storage.k8s.io]
  resources: [storageclasses]
  verbs: [list, watch]
{{- end }}
{{- if $volumes }}
- apiGroups: [storage.k8s.io]
  resources: [csinodes, csidrivers]
  verbs: [list, watch]
{{- end }}
{{- if has "VolumeBinding" $on }}
- apiGroups: [storage.k8s.io]
  resources: [csistoragecapacities]
  verbs: [list, watch]
{{- end }}
{{- if has "NodeVolumeLimits" $on }}
- apiGroups: [storage.k8s.io]
  resources: [volumeattachments]
  verbs: [list, watch]
{{- end }}
{{- if has "DefaultPreemption" $on }}
# The budgets of victims (DefaultPreemption).
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch]
{{- end }}
{{- if has "DefaultBinder" $on }}
# The decision.
- apiGroups: [""]
  resources: [pods/binding]
  verbs: [create]
{{- end }}
{{- if has "VolumeBinding" $on }}
# What comes before it for claims that wait for their first consumer: the volume that a claim is to have, the node that one is
# to be provisioned for.
- apiGroups: [""]
  resources: [persistentvolumes, persistentvolumeclaims]
  verbs: [patch]
{{- end }}
{{- if has "DefaultPreemption" $on }}
# Victims of a preemption.
- apiGroups: [""]
  resources: [pods]
  verbs: [delete]
{{- end }}
# Why a pod waits: its condition PodScheduled; why a victim has to go: DisruptionTarget; where room is made: nominatedNodeName.
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
# Scheduled, FailedScheduling and Preempted; a repeated one is patched into a series.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- with .Values.rbac.extraRules }}
{{ toYaml . }}
{{- end }}
{{- end }}
