"""What deploy/ says: compose files, Kubernetes manifests, units, and the settings in each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from deployment.dockerfile import DEPLOY, ROOT, environment

COMPOSE = sorted((DEPLOY / "compose").rglob("compose*.yaml"))
KUBERNETES = sorted((DEPLOY / "kubernetes").rglob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
# Those of other people, whose schemas are not Kubernetes' own.
FOREIGN = ("kustomize.config.k8s.io/v1beta1", "keda.sh/v1alpha1")
# Stands in for a secret that whoever deploys has to make; each fits the setting it is for.
SECRETS = {
    "database-url": "postgresql://rushes:secret@postgres/rushes",
    "storage-url": "s3://key:secret@bucket/?endpoint=https://s3.example.org&region=us-east-1",
    "redis-url": "rediss://:secret@redis.example.org:6379/0",
    "admin-secret": "secret",
}


@dataclass(frozen=True, slots=True)
class Container:
    """A process that a file starts: `place` says where, for a failing test."""

    place: str
    image: str
    arguments: list[str]
    environment: dict[str, str]


@cache
def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def objects(kind: str) -> list[dict[str, Any]]:
    return [each for path in KUBERNETES for each in documents(path) if each["kind"] == kind]


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in KUBERNETES:
        for each in documents(path):
            if each["kind"] in ("Deployment", "StatefulSet"):
                yield each["metadata"]["name"], each["spec"]["template"]


def pod_containers() -> Iterator[Container]:
    for name, template in pods():
        spec = template["spec"]
        for each in (*spec.get("initContainers", ()), *spec["containers"]):
            given: dict[str, str] = {}
            for source in each.get("envFrom", ()):
                [found] = [
                    one
                    for one in objects("ConfigMap")
                    if one["metadata"]["name"] == source["configMapRef"]["name"]
                ]
                given |= found["data"]
            for one in each.get("env", ()):
                given[one["name"]] = one.get("value") or _told(one["valueFrom"])
            yield Container(f"{name}/{each['name']}", each["image"], each["args"], given)


def _told(source: dict[str, Any]) -> str:
    if "fieldRef" in source:
        return str(source["fieldRef"]["fieldPath"])
    assert source["secretKeyRef"]["name"] == "rushes"
    return SECRETS[source["secretKeyRef"]["key"]]


def services() -> Iterator[tuple[Path, str, dict[str, Any]]]:
    for path in COMPOSE:
        for name, service in documents(path)[0]["services"].items():
            yield path, name, service


def compose_environment(service: dict[str, Any]) -> dict[str, str]:
    """As compose fills it in, with the example's domain."""
    given = {name: _filled(str(value)) for name, value in service.get("environment", {}).items()}
    return environment(service["build"].get("target", "server")) | given


def _filled(text: str) -> str:
    text = re.sub(r"\$\{DOMAIN:\?[^}]*\}", "rushes.example.org", text)
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def unit(path: Path) -> dict[str, list[str]]:
    """Every line of a unit, by its name."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def texts() -> Iterator[tuple[str, str]]:
    """Every file of deploy/, by its name."""
    for path in sorted(DEPLOY.rglob("*")):
        if path.is_file() and "secrets" not in path.parts:
            yield str(path.relative_to(ROOT)), path.read_text()
