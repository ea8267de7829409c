{{- define "belljar.name" -}}
{{- if contains "belljar" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-belljar{{ end -}}
{{- end }}

{{- define "belljar.selector" -}}
app.kubernetes.io/name: belljar
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "belljar.labels" -}}
{{ include "belljar.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* What the pod may do beyond others, by the mode of isolation. */ -}}
{{- define "belljar.securityContext" -}}
{{- if eq .Values.isolation.mode "privileged" -}}
privileged: true
{{- else -}}
capabilities:
  drop: [ALL]
  add: [SYS_ADMIN, SETUID, SETGID, CHOWN, DAC_OVERRIDE, FOWNER, KILL]
seccompProfile: {{- include "belljar.profile" .Values.isolation.seccompProfile | nindent 2 }}
appArmorProfile: {{- include "belljar.profile" .Values.isolation.appArmorProfile | nindent 2 }}
{{- if eq .Values.isolation.mode "userNamespace" }}
procMount: Unmasked
{{- end }}
{{- end }}
readOnlyRootFilesystem: true
{{- end }}

{{- define "belljar.profile" -}}
{{- if . -}}
type: Localhost
localhostProfile: {{ . }}
{{- else -}}
type: Unconfined
{{- end }}
{{- end }}

{{- /* Where the other nodes of a cluster reach the pod of this name. */ -}}
{{- define "belljar.node" -}}
{{- $chart := first . -}}
{{ last . }}.{{ include "belljar.name" $chart }}-nodes.{{ $chart.Release.Namespace }}.svc:7878
{{- end }}

{{- define "belljar.probe" -}}
httpGet:
  path: /healthz
  port: admin
  scheme: {{ empty .Values.tlsSecret | ternary "HTTP" "HTTPS" }}
{{- end }}
