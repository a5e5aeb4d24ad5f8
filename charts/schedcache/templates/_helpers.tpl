{{- define "schedcache.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "schedcache.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "schedcache.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "schedcache.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "schedcache.selector" -}}
{{- /* toYaml: a name may look like a number. */ -}}
app.kubernetes.io/name: {{ include "schedcache.name" . | toYaml }}
app.kubernetes.io/instance: {{ toYaml .Release.Name }}
{{- end }}

{{/* Labels of the pods: nothing that changes from one version of the chart to the next. */}}
{{- define "schedcache.podLabels" -}}
{{ include "schedcache.selector" . }}
app.kubernetes.io/component: {{ ternary "observer" "scheduler" .Values.observe }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "schedcache.labels" -}}
{{ include "schedcache.podLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "schedcache.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "schedcache.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name: needed if serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "schedcache.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- define "schedcache.lease" -}}
{{- default (include "schedcache.fullname" .) .Values.leaderElection.resourceName }}
{{- end }}

{{/* "yes" where a Lease is held. */}}
{{- define "schedcache.elects" -}}
{{- if and .Values.leaderElection.enabled (not .Values.observe) }}yes{{ end }}
{{- end }}

{{/* Name of the ConfigMap with the configuration, if there is one. */}}
{{- define "schedcache.configMap" -}}
{{- if .Values.kubeSchedulerConfiguration }}
{{- printf "%s-config" (include "schedcache.fullname" .) }}
{{- else }}
{{- .Values.existingConfigMap.name }}
{{- end }}
{{- end }}

{{/* The configuration as schedcache reads it. */}}
{{- define "schedcache.configuration" -}}
{{- $kind := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration" -}}
{{ merge (deepCopy .Values.kubeSchedulerConfiguration) $kind | toYaml }}
{{- end }}

{{/* Where the HTTPS port's certificate comes from: a Secret's name, or nothing. */}}
{{- define "schedcache.certificate" -}}
{{- if .Values.tls.certManager.enabled }}
{{- printf "%s-tls" (include "schedcache.fullname" .) }}
{{- else }}
{{- .Values.tls.existingSecret }}
{{- end }}
{{- end }}

{{/* What no schema can say. */}}
{{- define "schedcache.check" -}}
{{- if and (gt (int .Values.replicaCount) 1) (not .Values.leaderElection.enabled) (not .Values.observe) }}
{{- fail (printf "replicaCount: %d replicas would all schedule at once; set leaderElection.enabled, or replicaCount to 1" (int .Values.replicaCount)) }}
{{- end }}
{{- if and .Values.kubeSchedulerConfiguration .Values.existingConfigMap.name }}
{{- fail "existingConfigMap.name: there is a kubeSchedulerConfiguration as well; give one of them" }}
{{- end }}
{{- if and .Values.plugins.wheels (not .Values.plugins.volume) }}
{{- fail "plugins.volume: needed for plugins.wheels" }}
{{- end }}
{{- if and .Values.tls.certManager.enabled .Values.tls.existingSecret }}
{{- fail "tls.existingSecret: cert-manager makes one; give one of them" }}
{{- end }}
{{- if and .Values.tls.certManager.enabled (not .Values.tls.certManager.issuerRef.name) }}
{{- fail "tls.certManager.issuerRef.name: needed if tls.certManager.enabled" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (not .Values.tls.enabled) }}
{{- fail "serviceMonitor.enabled: needs tls.enabled, since Prometheus cannot reach the pods' loopback" }}
{{- end }}
{{- end }}
