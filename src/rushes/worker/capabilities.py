"""What this machine offers to jobs, and what people want to know about it."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from rushes.records import JsonObject
from rushes.tools import encoders

CGROUP_MEMORY = Path("/sys/fs/cgroup/memory.max")


def proved(given: Iterable[str] = ()) -> list[str]:
    """The words jobs may need: what was found to work here, and what the operator vouches for."""
    hardware = encoders.proved()
    return sorted({"cpu", *(["gpu"] if hardware else []), *hardware, *given})


def described() -> JsonObject:
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": metadata.version("rushes"),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": _cores(),
        "memory_bytes": _memory_bytes(),
        **pod(),
    }


def pod() -> dict[str, str]:
    """Where Kubernetes runs this, as far as the deployment passes it on; its pods are hosts."""
    names = {"pod_name": "POD_NAME", "pod_namespace": "POD_NAMESPACE", "node_name": "NODE_NAME"}
    found = {name: value for name, key in names.items() if (value := os.environ.get(key))}
    if "pod_name" not in found and "KUBERNETES_SERVICE_HOST" in os.environ:
        found["pod_name"] = os.environ.get("HOSTNAME") or socket.gethostname()
    return found


def _cores() -> int:
    """Those this process may use, which can be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_bytes() -> int:
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        allowed = CGROUP_MEMORY.read_text().strip()
    except OSError:
        return physical
    return min(physical, int(allowed)) if allowed.isdecimal() else physical
