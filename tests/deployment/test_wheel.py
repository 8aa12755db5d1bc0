"""The wheel that is installed, and nothing of this folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import httpx2
import pytest

from deployment.dockerfile import ROOT
from running import ADMIN_TOKEN, clean_environment, free_port, wait_for_server

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*pip, folder, ROOT], check=True)
    [made] = folder.glob("rushes-*.whl")
    return made


def test_it_has_the_pages_and_all_that_is_no_python(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "rushes/web/static/index.html" in names
    assert any(name.startswith("rushes/web/static/assets/") for name in names)
    sources = [path for path in (ROOT / "src").rglob("*") if path.is_file()]
    wanted = {
        str(path.relative_to(ROOT / "src")) for path in sources if "__pycache__" not in path.parts
    }
    assert wanted <= names
    assert not {name for name in names if name.startswith(("tests/", "ui/", "deploy/"))}


def test_it_serves_from_a_new_environment(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    python = str(home / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(pip, check=True)
    # What it imports is taken from here: a path file is not read for others that are named in it,
    # so the Rushes of this folder is out of reach.
    site = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    ).strip()
    (Path(site) / "others.pth").write_text(sysconfig.get_path("purelib"))
    port = free_port()
    environment = clean_environment() | {
        "PYTHONPATH": "",
        "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "RUSHES_PORT": str(port),
        "RUSHES_ADMIN_TOKEN": ADMIN_TOKEN,
        "RUSHES_TRANSCRIPTION_WORKERS": "0",
    }
    where = [python, "-c", "import rushes; print(rushes.__file__)"]
    found = subprocess.check_output(where, text=True, env=environment, cwd=tmp_path)
    assert found.startswith(str(home))
    log = tmp_path / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [home / "bin" / "rushes", "serve"],
            env=environment,
            cwd=tmp_path,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for_server(port, server, log)
        page = httpx2.get(f"http://127.0.0.1:{port}/")
        assert "<title>Rushes" in page.text
        script = (
            page.text.partition('<script type="module"')[2].partition('src="')[2].partition('"')[0]
        )
        assert httpx2.get(f"http://127.0.0.1:{port}{script}").status_code == 200
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0
    finally:
        server.kill()
