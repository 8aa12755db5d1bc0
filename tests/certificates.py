"""Certificates by an authority of the tests' own, made by the openssl program."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Certificate:
    file: Path
    key: Path
    authority: Path


class Authority:
    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self.file, self._key = directory / f"{name}.pem", directory / f"{name}.key"
        files = ("-keyout", self._key, "-out", self.file)
        openssl("req", "-x509", *KEY, "-subj", f"/CN={name}", *files)

    def issue(self, name: str, *, host: str = "IP:127.0.0.1", days: int = 1) -> Certificate:
        """Below zero `days` it has expired."""
        place = self._directory / name
        made = Certificate(place.with_suffix(".pem"), place.with_suffix(".key"), self.file)
        asked = place.with_suffix(".csr")
        subject = ("-subj", f"/CN={name}", "-addext", f"subjectAltName={host}")
        openssl("req", *KEY, *subject, "-keyout", made.key, "-out", asked)
        by = ("-CA", self.file, "-CAkey", self._key, "-copy_extensions", "copy")
        openssl("x509", "-req", "-in", asked, *by, "-days", str(days), "-out", made.file)
        return made


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
