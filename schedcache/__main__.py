"""`python -m schedcache` is the command `schedcache`."""

import sys

from schedcache.cli import main

if __name__ == "__main__":
    sys.exit(main())
