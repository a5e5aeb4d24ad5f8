"""The way to a Kubernetes API server: credentials, transport, the watch path and the writes.

Start with `load_credentials`, open a `Transport`, and give it to a `Reflector` (or a `KopfSource`), an `ApiBinder`, an
`ApiStatusWriter` and an `ApiEventRecorder`.
"""
