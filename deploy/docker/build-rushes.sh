#!/bin/sh
# The wheel of Rushes with its pages, made of this folder and installed into /opt/rushes. After build-packages.sh.
set -eu

rm -rf /opt/wheels
PATH="/opt/build/bin:$PATH" /opt/build/bin/pip wheel --quiet --disable-pip-version-check --no-cache-dir --no-deps \
    --no-build-isolation --wheel-dir /opt/wheels .
/opt/rushes/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --no-index --no-deps /opt/wheels/rushes-*.whl
# No pages, no image.
/opt/rushes/bin/python -c 'from pathlib import Path; import rushes
assert (Path(rushes.__file__).parent / "web/static/index.html").is_file(), "the pages are missing"'
