"""Masters in containers, through testcontainers. Nothing here ever pulls an image.

The image is the one that compose.yaml names; where it is absent or no engine answers, tests are skipped.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import redis

from rlock.testing.local.spawn import free_port

from ..servers import raw

PORT = "6379/tcp"
START_TIMEOUT_S = 20.0


def image() -> str:
    """The image of compose.yaml, so that the suite runs on what a deployment runs on."""
    text = (Path(__file__).parents[2] / "compose.yaml").read_text(encoding="utf-8")
    match = re.search(r"^\s*image:\s*(\S+)", text, re.MULTILINE)
    assert match, "compose.yaml names no image"
    return match[1]


@cache
def why_not() -> str:
    """Why no master can be started in a container here; empty when it can."""
    try:
        docker = importlib.import_module("docker")
    except ImportError:
        return "the package docker (of testcontainers) is not installed"
    try:
        client = docker.from_env(timeout=5)
    except docker.errors.DockerException as error:
        return f"no Docker engine answers: {error}"
    try:
        client.images.get(image())
    except docker.errors.ImageNotFound:
        return f"the image {image()} is not on this machine, and the suite pulls none"
    except docker.errors.DockerException as error:
        return f"the Docker engine answers with an error: {error}"
    finally:
        client.close()
    return ""


class ContainerMaster:
    """A master in a container, on a port of 127.0.0.1 that it keeps through restarts."""

    def __init__(self, args: Sequence[str] = (), password: str | None = None) -> None:
        self._command = ["valkey-server", "--save", "", "--appendonly", "no"]
        # Protected mode refuses whatever does not come from inside the container.
        self._command += ["--protected-mode", "no", *args]
        if password:
            self._command += ["--requirepass", password]
        self._auth = f":{password}@" if password else ""
        self._port = free_port()
        self._container: Any = None

    @property
    def url(self) -> str:
        return f"redis://{self._auth}127.0.0.1:{self._port}"

    @property
    def running(self) -> bool:
        if self._container is None:
            return False
        self._container.reload()
        return self._container.status in ("running", "paused")

    def start(self) -> ContainerMaster:
        if self._container is None:
            self._create()
        elif not self.running:
            self._container.start()
        self._await_ready()
        return self

    def stop(self) -> None:
        if self.running:
            self.resume()
            self._container.stop(timeout=3)

    def kill(self) -> None:
        if self.running:
            self._container.kill()
            self._container.wait()

    def pause(self) -> None:
        self._container.pause()

    def resume(self) -> None:
        self._container.reload()
        if self._container.status == "paused":
            self._container.unpause()

    def restart(self, empty: bool = True) -> ContainerMaster:
        """On the same port; ``empty`` gives it a new volume, so that nothing durable comes back."""
        self.stop()
        if empty:
            self.close()
        return self.start()

    def close(self) -> None:
        if self._container is not None:
            self._container.remove(force=True, v=True)
            self._container = None

    def _create(self) -> None:
        from testcontainers.core.config import testcontainers_config
        from testcontainers.core.container import DockerContainer

        # The reaper is an image of its own that would have to be pulled; close() removes what we start.
        testcontainers_config.ryuk_disabled = True
        container = DockerContainer(image()).with_command(self._command)
        # testcontainers binds on all interfaces; a master without a password must not be reachable there.
        cast(Any, container).ports[PORT] = ("127.0.0.1", self._port)
        container.start()
        self._container = container.get_wrapped_container()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(redis.ConnectionError, redis.TimeoutError), raw(self.url, 1.0) as client:
                client.ping()
                return
            time.sleep(0.02)
        raise RuntimeError(f"{self.url} did not answer:\n{self._container.logs(tail=20).decode()}")
