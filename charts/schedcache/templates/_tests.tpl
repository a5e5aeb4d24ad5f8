{{- define "schedcache.testName" -}}
{{ include "schedcache.name" . | trunc 58 | trimSuffix "-" }}-test
{{- end }}

{{- define "schedcache.testLabels" -}}
app.kubernetes.io/name: {{ include "schedcache.testName" . }}
app.kubernetes.io/instance: {{ toYaml .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* The rest of a test's pod spec. script: what its Python runs; root: the chart's scope. */}}
{{- define "schedcache.testPod" -}}
restartPolicy: Never
terminationGracePeriodSeconds: 0
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
{{- toYaml . | nindent 0 }}
{{- end }}
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
containers:
- name: test
  image: {{ include "schedcache.image" .root }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [python3, -c]
  args:
  - |
    {{- .script | nindent 4 }}
  {{- with .env }}
  env:
  {{- toYaml . | nindent 2 }}
  {{- end }}
  resources:
    requests:
      cpu: 10m
      memory: 32Mi
  securityContext:
    {{- toYaml .root.Values.securityContext | nindent 4 }}
{{- end }}
