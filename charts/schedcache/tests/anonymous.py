"""Run by `helm test` in a pod without a token: the dump is refused to it."""

import os
import ssl
import sys
import urllib.error
import urllib.request

CONTEXT = ssl._create_unverified_context()  # noqa: S323, SLF001  replicas may have made their certificates themselves

try:
    with urllib.request.urlopen(os.environ["URL"], context=CONTEXT, timeout=10) as response:  # noqa: S310  https
        sys.exit(f"anybody may read the dump: {response.status}")
except urllib.error.HTTPError as error:
    if error.code not in (401, 403):
        sys.exit(f"expected to be refused: {error}")
    print("refused with", error.code)
