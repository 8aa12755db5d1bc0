"""deploy/ says nothing that Rushes does not know: settings, routes, commands, times."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from deployment import dockerfile, manifests
from deployment.dockerfile import DEPLOY, ROOT
from rushes import app, cli, config, serving, settings
from rushes.cli import worker

VARIABLES = {settings.variable(name) for name in settings.FIELDS} | {
    f"{settings.variable(name)}_FILE" for name, each in settings.FIELDS.items() if each.secret
}
README = (DEPLOY / "README.md").read_text()
# The server: workers get their second, connections their five, and chores as many again.
DRAIN_SECONDS = 2 * serving.GRACE_SECONDS + app.STOP_SECONDS
WORKER_DRAIN_SECONDS = worker.STOP_SECONDS + worker.GIVE_BACK_SECONDS
MARGIN = 2
DOCUMENTS = ("gpu", "scaling", "coming-from", "troubleshooting")


def seconds(text: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(s|m|min)?", text).groups()  # type: ignore[union-attr]
    return float(number) * (60 if unit in ("m", "min") else 1)


COMMAND = re.compile(
    r"(?<![\w./:@-])(?<!namespace )(?:/opt/rushes/bin/)?rushes"
    r" ((?!rushes\b)[a-z]+(?: [^\n&|;`#']+)?)"
)


def commands(text: str) -> list[list[str]]:
    """What stands behind `rushes` in lines that somebody is to run."""
    return [shlex.split(each) for each in COMMAND.findall(text)]


def check_command(words: list[str]) -> None:
    """That it can be parsed, down to the last flag; nothing is run."""
    cli.app().parse_args(words, exit_on_error=False, print_error=False)


# Settings


def test_every_variable_is_a_setting() -> None:
    for name, text in manifests.texts():
        assert set(re.findall(r"\bRUSHES_[A-Z_]*[A-Z]\b", text)) <= VARIABLES, name


@pytest.mark.parametrize("container", list(manifests.pod_containers()), ids=lambda each: each.place)
def test_pods_start_with_settings_that_load(container: manifests.Container, tmp_path: Path) -> None:
    stage = "server" if "server" in container.image else "worker"
    config.load(dockerfile.environment(stage) | container.environment, tmp_path)
    check_command(container.arguments)


def test_compose_starts_with_settings_that_load(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    made = secrets_in(folder)
    checked = []
    for path, name, service in manifests.services():
        if "build" not in service or path.name != "compose.yaml":
            continue
        given = manifests.compose_environment(service)
        for label, place in given.items():
            if label.endswith("_FILE"):
                secret = place.removeprefix("/run/secrets/")
                assert secret in service["secrets"]
                given[label] = str(made / secret)
        loaded = config.load(given, tmp_path)
        checked.append(name)
        if name == "server":
            assert loaded.database_url.startswith("postgresql://rushes:")
            assert loaded.storage_url.endswith(
                "@rushes/?endpoint=http://storage:8333&region=us-east-1"
            )
    assert sorted(checked) == ["rushes", "server", "worker", "worker-gpu"]


def test_units_start_with_settings_that_load(tmp_path: Path) -> None:
    for path in manifests.UNITS:
        [line] = manifests.unit(path)["Environment"]
        loaded = config.load(dict(each.split("=") for each in line.split()), tmp_path)
        [folder] = manifests.unit(path)["StateDirectory"]
        assert loaded.data_dir == Path("/var/lib") / folder


# Secrets


def secrets_in(folder: Path) -> Path:
    folder.mkdir()
    script = folder / "make-secrets.sh"
    script.write_text((DEPLOY / "compose/fleet/make-secrets.sh").read_text())
    subprocess.run(["sh", script], check=True)
    return folder / "secrets"


def test_each_fleet_gets_secrets_of_its_own_and_keeps_them(tmp_path: Path) -> None:
    one, other = secrets_in(tmp_path / "one"), secrets_in(tmp_path / "other")
    wanted = manifests.documents(DEPLOY / "compose/fleet/compose.yaml")[0]["secrets"]
    assert {Path(each["file"]).name for each in wanted.values()} <= {
        each.name for each in one.iterdir()
    }
    before = {each.name: each.read_text() for each in one.iterdir()}
    assert all(text != (other / name).read_text() for name, text in before.items())
    assert one.stat().st_mode & 0o077 == 0
    subprocess.run(["sh", one.parent / "make-secrets.sh"], check=True)
    assert {each.name: each.read_text() for each in one.iterdir()} == before


def test_no_password_stands_in_a_file() -> None:
    for name, text in manifests.texts():
        for user, password in re.findall(r"://([^/\s:@]*):([^/\s@]+)@", text):
            assert password.startswith("$") or password in ("PASSWORD", "SECRET"), (name, user)
    secret = re.search(r"create secret generic rushes\b(.*?)\n```", README, re.DOTALL)
    assert secret
    assert set(re.findall(r"--from-\w+=([a-z-]+)=", secret[1])) == set(manifests.SECRETS)


# Routes and ports


def test_probes_and_proxies_name_routes_that_exist() -> None:
    known = set(json.loads((ROOT / "docs/openapi.json").read_text())["paths"])
    named: set[str] = set()
    for _, text in manifests.texts():
        named |= set(re.findall(r"path: (/\w+), port", text))
        named |= set(re.findall(r"prometheus.io/path: (\S+)", text))
        named |= {path for line in re.findall(r"@inside path (.+)", text) for path in line.split()}
        named |= {
            f"/{each}" for found in re.findall(r"\^/\((.+?)\)\$", text) for each in found.split("|")
        }
        named |= set(re.findall(r'(?:8484\}|\)\})(/\w+)"', text))
    assert named == {"/livez", "/readyz", "/metrics", "/health"}
    assert named <= known


def test_there_is_one_port() -> None:
    port = str(settings.FIELDS["port"].default)
    for name, text in manifests.texts():
        for said in re.findall(r"(?:server:|server |127\.0\.0\.1:|localhost:)(\d{4})\b", text):
            assert said in (port, "2019", "8333"), name
    assert dockerfile.last("server", "EXPOSE").rest == port


def test_autoscaling_asks_for_a_metric_that_is_there() -> None:
    [scaled] = manifests.objects("ScaledObject")
    query = scaled["spec"]["triggers"][0]["metadata"]["query"]
    source = (ROOT / "src/rushes/web/api/metrics.py").read_text()
    [metric] = set(re.findall(r"rushes_\w+", query))
    assert f'"{metric}"' in source
    [adapted] = [
        each for each in manifests.objects("HorizontalPodAutoscaler") if "worker" in str(each)
    ]
    assert adapted["spec"]["metrics"][0]["external"]["metric"]["name"] == metric
    comment = (DEPLOY / "kubernetes/autoscaling/worker-hpa.yaml").read_text()
    assert query in comment


# Commands


def test_every_command_can_be_typed() -> None:
    found = [words for _, text in manifests.texts() for words in commands(text)]
    found += [words for each in DOCUMENTS for words in commands(doc(each))]
    assert ["worker", "--register"] in found
    assert ["users", "link", "admin"] in found
    for words in found:
        check_command(words)
    for path in manifests.UNITS:
        [start] = manifests.unit(path)["ExecStart"]
        check_command(start.split()[1:])
    for stage in ("server", "worker"):
        assert dockerfile.last(stage, "ENTRYPOINT").words[-1] == "rushes"
        check_command(dockerfile.last(stage, "CMD").words)


def doc(name: str) -> str:
    path = ROOT / "docs" / f"{name}.md"
    return path.read_text() if path.exists() else ""


# Leaving


def test_everybody_gets_time_to_leave() -> None:
    for path in manifests.UNITS:
        drain = WORKER_DRAIN_SECONDS if "worker" in path.name else DRAIN_SECONDS
        lines = manifests.unit(path)
        assert seconds(lines["TimeoutStopSec"][0]) >= drain + MARGIN
        assert lines["KillSignal"] == ["SIGTERM"]
    for path, name, service in manifests.services():
        if "build" in service and path.name == "compose.yaml":
            assert seconds(service["stop_grace_period"]) >= DRAIN_SECONDS + MARGIN, name
    for name, template in manifests.pods():
        spec = template["spec"]
        waits = spec["containers"][0].get("lifecycle", {}).get("preStop", {}).get("exec", {})
        before = float(waits["command"][1]) if waits else 0.0
        drain = WORKER_DRAIN_SECONDS if "worker" in name else DRAIN_SECONDS
        assert spec["terminationGracePeriodSeconds"] >= before + drain + MARGIN, name
    assert dockerfile.last("server", "STOPSIGNAL").rest == "SIGTERM"


# Who runs there


def test_nobody_is_root_and_the_root_is_read_only() -> None:
    user = dockerfile.last("server", "USER").rest
    number = int(user.split(":")[0])
    assert f"--uid {number}" in (DEPLOY / "docker/build-runtime.sh").read_text()
    for name, template in manifests.pods():
        spec = template["spec"]
        assert spec["securityContext"]["runAsUser"] == number, name
        for each in (*spec.get("initContainers", ()), *spec["containers"]):
            rights = each["securityContext"]
            assert rights["readOnlyRootFilesystem"], name
            assert rights["capabilities"] == {"drop": ["ALL"]}
            assert not rights["allowPrivilegeEscalation"]
            assert {"/data", "/tmp"} == {mount["mountPath"] for mount in each["volumeMounts"]}
    for path, name, service in manifests.services():
        if "build" in service and path.name == "compose.yaml":
            assert service["read_only"], name
            assert service["cap_drop"] == ["ALL"], name


def test_the_worker_does_not_know_the_admin_secret() -> None:
    for each in manifests.pod_containers():
        knows = "RUSHES_ADMIN_SECRET" in each.environment
        assert knows == (each.arguments in (["worker", "--register"], ["serve"])), each.place


# What belongs together


def test_selectors_and_targets_find_something() -> None:
    labels = {name: template["metadata"]["labels"] for name, template in manifests.pods()}
    for kind in ("Service", "PodDisruptionBudget", "NetworkPolicy"):
        for each in manifests.objects(kind):
            spec = each["spec"]
            selector = spec.get("selector") or spec.get("podSelector")
            wanted = selector.get("matchLabels", selector) if selector else {}
            if "matchExpressions" in wanted:
                assert set(wanted["matchExpressions"][0]["values"]) <= set(labels)
            else:
                assert any(wanted.items() <= one.items() for one in labels.values()), each
    for kind in ("HorizontalPodAutoscaler", "ScaledObject"):
        for each in manifests.objects(kind):
            assert each["spec"]["scaleTargetRef"]["name"] in labels
    [ingress] = manifests.objects("Ingress")
    backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    [service] = [
        each for each in manifests.objects("Service") if each["metadata"]["name"] == backend["name"]
    ]
    assert backend["port"]["name"] in {port["name"] for port in service["spec"]["ports"]}


def test_the_kustomization_names_every_manifest() -> None:
    folder = DEPLOY / "kubernetes"
    text = (folder / "kustomization.yaml").read_text()
    used = manifests.documents(folder / "kustomization.yaml")[0]["resources"]
    assert all((folder / each).is_file() for each in used)
    others = {str(path.relative_to(folder)) for path in manifests.KUBERNETES} - {
        "kustomization.yaml"
    }
    assert others == set(re.findall(r"[\w/-]+\.yaml", text)) - {"kustomization.yaml"}


def test_the_image_gets_all_that_it_copies_and_no_more() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in lines if line.startswith("!")}
    copied: set[str] = set()
    for stage in dockerfile.stages().values():
        for step in stage.steps:
            if step.word == "COPY" and not step.rest.startswith("--from="):
                copied |= set(step.words[:-1])
    assert all((ROOT / each).exists() for each in copied)
    scripts = {each for each in copied if each.endswith(".sh")}
    assert {f"deploy/docker/{each.name}" for each in (DEPLOY / "docker").glob("*.sh")} == scripts
    assert copied - scripts == allowed - {"deploy/docker/*.sh"}
    assert all(os.access(ROOT / each, os.X_OK) for each in scripts)


def test_images_are_built_of_locks_and_named_bases() -> None:
    known = dockerfile.stages()
    bases = {each.base for each in known.values()} - set(known)
    assert bases == {"debian:bookworm-slim"}
    script = (DEPLOY / "docker/build-packages.sh").read_text()
    installs = re.findall(r"^ *(?:install|\S+pip install) .*$", script, re.MULTILINE)
    for line in installs:
        assert re.search(r"requirements[\w-]*\.txt", line), line
    assert "--require-hashes" in script
    for lock in set(re.findall(r"requirements[\w-]*\.txt", script)):
        assert "--hash=sha256:" in (ROOT / lock).read_text()


def test_the_fleet_checks_everybody_s_health() -> None:
    fleet = manifests.documents(DEPLOY / "compose/fleet/compose.yaml")[0]
    for name, service in fleet["services"].items():
        assert "healthcheck" in service or "build" in service, name
        for other, terms in service.get("depends_on", {}).items():
            assert terms["condition"] == "service_healthy", (name, other)
    assert fleet["services"]["server"]["deploy"]["replicas"] == 2
    [subnet] = fleet["networks"]["front"]["ipam"]["config"]
    trusted = fleet["services"]["server"]["environment"]["RUSHES_TRUSTED_PROXIES"]
    assert trusted == subnet["subnet"]
    # Whoever is in that network may say for whom it asks.
    inside = {name for name, each in fleet["services"].items() if "front" in each["networks"]}
    assert inside == {"proxy", "server"}
