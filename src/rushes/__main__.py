"""`python -m rushes` is `rushes`."""

from __future__ import annotations

import sys

from rushes.cli import main

if __name__ == "__main__":
    sys.exit(main())
