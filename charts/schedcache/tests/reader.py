"""Run by `helm test` in a pod that may read the dump: it finds itself there, on the node where it runs."""

import json
import os
import pathlib
import ssl
import sys
import time
import urllib.request

TOKEN = pathlib.Path(os.environ.get("TOKEN_FILE", "/var/run/secrets/kubernetes.io/serviceaccount/token"))
# Whose certificate it is does not matter here: nothing secret is sent but a token that ends with this pod.
CONTEXT = ssl._create_unverified_context()  # noqa: S323, SLF001  replicas may have made their certificates themselves
DEADLINE = time.monotonic() + 30

request = urllib.request.Request(os.environ["URL"], headers={"Authorization": f"Bearer {TOKEN.read_text().strip()}"})  # noqa: S310  https
while True:
    with urllib.request.urlopen(request, context=CONTEXT, timeout=10) as response:  # noqa: S310  https
        pod = json.load(response)["pods"].get(os.environ["POD_UID"])
    if pod is not None and pod["node"] == os.environ["NODE"]:
        break
    if time.monotonic() > DEADLINE:
        sys.exit(f"the dump has this pod as {pod}, not on {os.environ['NODE']}")
    time.sleep(1)
print("found on", os.environ["NODE"])
