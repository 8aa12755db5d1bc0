"""deploy/ as others read it: schemas of compose and Kubernetes, systemd, hadolint, Caddy, nginx."""

from __future__ import annotations

import importlib.resources
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema_rs
import kubernetes_validate
import pytest

from deployment import manifests
from deployment.dockerfile import DEPLOY, DOCKERFILE

# The oldest that is likely to be met, and the newest that is known.
KUBERNETES = ("1.30", "1.37")
# Of 10; what is not hardened at all has 9.6.
EXPOSURE = 25


def check(*argv: str | Path, **environment: str) -> str:
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def tool(name: str) -> Path:
    """Of a development wheel."""
    return Path(sys.executable).with_name(name)


def installed(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.mark.parametrize("path", manifests.COMPOSE, ids=lambda each: each.parent.name)
def test_compose_files_fit_the_specification(path: Path) -> None:
    package = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    schema = json.loads((package / "compose-spec.json").read_text())
    jsonschema_rs.validate(schema, manifests.documents(path)[0])


@pytest.mark.parametrize("version", KUBERNETES)
def test_manifests_fit_kubernetes(version: str) -> None:
    checked = set()
    for path in manifests.KUBERNETES:
        for each in manifests.documents(path):
            if each["apiVersion"] not in manifests.FOREIGN:
                kubernetes_validate.validate(each, version, strict=True)
                checked.add(each["kind"])
    assert {"Deployment", "StatefulSet", "Service", "PodDisruptionBudget", "Ingress"} <= checked


def test_kustomize_builds_it() -> None:
    built = check(installed("kubectl"), "kustomize", DEPLOY / "kubernetes")
    assert "image: registry.example.org/rushes-server:0.1.0" in built
    assert "image: rushes-server\n" not in built


def test_the_dockerfile_is_clean() -> None:
    check(tool("hadolint"), DOCKERFILE)


def test_scripts_are_clean() -> None:
    check(tool("shellcheck"), *DEPLOY.rglob("*.sh"))


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    analyze = installed("systemd-analyze")
    for path in manifests.UNITS:
        text = path.read_text().replace("/opt/rushes/bin/rushes", str(tool("rushes")))
        (tmp_path / path.name).write_text(text)
    assert check(analyze, "verify", *tmp_path.glob("*.service")) == ""
    for path in tmp_path.glob("*.service"):
        check(analyze, "security", "--offline=yes", f"--threshold={EXPOSURE}", path)


def test_units_are_hardened() -> None:
    """Whether or not systemd is here."""
    for path in manifests.UNITS:
        lines = manifests.unit(path)
        for name in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectKernelModules"):
            assert lines[name] == ["yes"], path
        assert lines["ProtectSystem"] == ["strict"]
        assert lines["CapabilityBoundingSet"] == [""]
        assert lines["User"] == ["rushes"]


def test_systemd_makes_the_user_and_the_folders() -> None:
    folder = DEPLOY / "systemd"
    sysusers = installed("systemd-sysusers")
    said = check(sysusers, "--dry-run", folder / "rushes.sysusers.conf")
    assert "rushes" in said
    names = re.findall(r"^d (\S+)", (folder / "rushes.tmpfiles.conf").read_text(), re.MULTILINE)
    assert names == ["/etc/rushes", "/var/lib/rushes", "/var/lib/rushes-worker"]


@pytest.mark.parametrize(
    "path", sorted(DEPLOY.rglob("Caddyfile")), ids=lambda each: each.parent.name
)
def test_caddy_accepts_its_files(path: Path, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "DOMAIN": "rushes.example.org"}
    said = check(tool("caddy"), "validate", "--adapter", "caddyfile", "--config", path, **home)
    assert "Valid configuration" in said
    assert "not formatted" not in said


def test_nginx_accepts_its_file(tmp_path: Path) -> None:
    nginx = installed("nginx")
    key, certificate = tmp_path / "privkey.pem", tmp_path / "fullchain.pem"
    check(
        installed("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x",
        "-keyout", key, "-out", certificate,
    )  # fmt: skip
    text = (DEPLOY / "proxy/nginx.conf").read_text()
    text = text.replace("/etc/letsencrypt/live/rushes.example.org", str(tmp_path))
    (tmp_path / "rushes.conf").write_text(text)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = " ".join(f"{each}_temp_path {each};" for each in kinds)
    inside = f"access_log off; {places} include rushes.conf;"
    around = f"pid pid; error_log stderr; events {{}} http {{ {inside} }}"
    (tmp_path / "nginx.conf").write_text(around)
    check(nginx, "-t", "-p", tmp_path, "-c", tmp_path / "nginx.conf")
