#!/bin/sh
# What the finished image has of Debian, and who runs in it. Runs as root in a bare Debian; /opt/rushes is put beside it.
set -eu
export DEBIAN_FRONTEND=noninteractive

packages="ca-certificates python3 tini"
# Elsewhere the lock file brings ffmpeg; Debian's comes with some 300 MB of libraries.
if [ "${VARIANT:-cpu}" = cuda ] || [ "$(uname -m)" != x86_64 ]; then
    packages="$packages ffmpeg"
fi
apt-get update -qq
# shellcheck disable=SC2086 # several words
apt-get install -qq -y --no-install-recommends $packages >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/*

groupadd --gid 10001 rushes
useradd --uid 10001 --gid rushes --home-dir /data --no-create-home --shell /usr/sbin/nologin rushes
install -d -m 0700 -o rushes -g rushes /data
