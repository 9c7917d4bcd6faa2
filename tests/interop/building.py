"""Builds the Java side: once for each version of the sources, kept among the temporary files."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

JAVA_AT_LEAST = 17
PROJECT = Path(__file__).with_name("java")
#: Without a network Maven tries for minutes; with one and an empty repository it takes half a minute.
ONLINE_S = 240.0
OFFLINE_S = 90.0
#: For so long a failure is told again instead of tried again: each worker of pytest-xdist asks.
FAILED_S = 300.0


class NotBuiltError(Exception):
    """The Java side cannot be had on this machine, and why: its tests are left out."""


class BrokenError(Exception):
    """The Java side's own sources do not compile: nobody may take that for a machine without Java."""


@dataclass(frozen=True)
class Build:
    """What a JVM needs to run it."""

    java: str
    folder: Path
    redisson: str

    @property
    def command(self) -> list[str]:
        """The process that speaks over stdin and stdout (peer.Main). Small: tests start several."""
        path = os.pathsep.join([str(self.folder / "classes"), str(self.folder / "jars" / "*")])
        options = ["-Xms32m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        return [self.java, *options, "-cp", path, "peer.Main"]


def version() -> str:
    """Of Redisson, as the project has it."""
    found = re.search(r"<redisson.version>([^<]+)<", (PROJECT / "pom.xml").read_text(encoding="utf-8"))
    assert found
    return found[1]


def build() -> Build:
    """The Java side, built if it is not. Any number of processes may call at once.

    Raises `NotBuiltError` without Java, Maven or (for what the local repository lacks) the registry.
    """
    java, maven, release = _tools()
    wanted = version()
    cache = _cache()
    folder = cache / f"redisson-{wanted}-{_digest(release)}"
    with (cache / f"{folder.name}.lock").open("a") as mutex:
        fcntl.flock(mutex, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            _build(maven, wanted, folder)
    return Build(java, folder, wanted)


def _tools() -> tuple[str, str, str]:
    """The java and mvn of the PATH, and what the former says of itself."""
    java, maven = shutil.which("java"), shutil.which("mvn")
    if java is None or maven is None:
        raise NotBuiltError(f"no {'java' if java is None else 'mvn'} on this machine")
    try:
        asked = [java, "-version"]
        told = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise NotBuiltError(f"java -version: {error}") from error
    found = re.search(r'version "(\d+)', told)
    if found is None or int(found[1]) < JAVA_AT_LEAST:
        raise NotBuiltError(f"Java {JAVA_AT_LEAST} or newer is needed: {told.splitlines()[0]}")
    return java, maven, found[1]


def _cache() -> Path:
    # A user's own: in a folder that all may write somebody else's classes could be waiting for us.
    cache = Path(tempfile.gettempdir()) / f"rlock-tests-java-{os.getuid()}"
    cache.mkdir(mode=0o700, exist_ok=True)
    if cache.is_symlink() or cache.stat().st_uid != os.getuid():
        raise NotBuiltError(f"{cache} is somebody else's")
    return cache


def _digest(release: str) -> str:
    text = hashlib.sha256(release.encode())
    for path in sorted([PROJECT / "pom.xml", *PROJECT.glob("src/**/*.java")]):
        text.update(path.read_bytes())
    return text.hexdigest()[:12]


def _build(maven: str, wanted: str, folder: Path) -> None:
    note = folder.with_name(f"{folder.name}.failed")
    if note.exists() and time.time() - note.stat().st_mtime < FAILED_S:
        raise NotBuiltError(note.read_text(encoding="utf-8"))
    shutil.rmtree(folder, ignore_errors=True)  # half of one, of a build that was killed
    try:
        # What the local repository has needs no registry, and no second for asking it.
        if not _maven(maven, wanted, folder, OFFLINE_S, "--offline"):
            _maven(maven, wanted, folder, ONLINE_S)
    except NotBuiltError as error:
        note.write_text(str(error), encoding="utf-8")
        raise
    note.unlink(missing_ok=True)
    (folder / "built").touch()


def _maven(maven: str, wanted: str, folder: Path, limit_s: float, *options: str) -> bool:
    """Run it; whether it went well. Offline "no" is an answer, online it is `NotBuiltError`."""
    command = [maven, "-q", "-B", "-ntp", *options, "-f", str(PROJECT / "pom.xml")]
    command += [f"-Doutput.directory={folder}"]
    command += [f"-DoutputDirectory={folder / 'jars'}", "-DincludeScope=runtime"]
    # These two goals and no phase: a phase would fetch plugins for resources, tests and archives, too.
    command += ["compiler:compile", "dependency:copy-dependencies"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        if options:
            return False
        raise NotBuiltError(f"Maven did not get Redisson {wanted} in {limit_s:.0f} s") from None
    if done.returncode == 0:
        return True
    told = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)
    if "COMPILATION ERROR" in told:
        raise BrokenError(f"tests/interop/java does not compile with Redisson {wanted}:\n{told}")
    if options:
        return False
    first = next((line for line in told.splitlines() if line.startswith("[ERROR]")), told.strip()[:300])
    raise NotBuiltError(f"Maven cannot get Redisson {wanted}: {first.removeprefix('[ERROR]').strip()}")
