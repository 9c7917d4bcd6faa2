"""docs/howto/cron.md: the lines of the crontab, the units, and two schedulers."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..lock.conftest import eventually
from ..servers import Fleet
from .pages import PYTHON, Start, block, lay_out, starter

PAGE = "howto/cron.md"
FIELDS = 5
#: Notes that it runs, and waits until it is told to end.
JOB = "#!/bin/sh\necho $$ >>ran\nuntil test -e go-on; do sleep 0.05; done\nexit 3\n"


@pytest.fixture
def start(masters3: Fleet, tmp_path: Path) -> Iterator[Start]:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    scripts = {
        "rlock": f'#!/bin/sh\nexec {shlex.quote(PYTHON)} -m rlock "$@"\n',
        "venv/bin/python": '#!/bin/sh\nexec sh "$@"\n',
    }
    for name in ("rlock", "venv/bin/python", "nightly.py", "invoices.sh", "import.sh"):
        (tmp_path / name).write_text(scripts.get(name, JOB))
        (tmp_path / name).chmod(0o755)
    with starter(tmp_path, masters3.urls, PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}") as start:
        yield start


def crontab(folder: Path) -> dict[str, str]:
    """The shell lines, by the name of the lock, with everything in this folder."""
    lines = block(PAGE, "crontab").splitlines()
    settings = [line for line in lines if re.fullmatch(r"[A-Z_]+=\S+", line)]
    assert [line.partition("=")[0] for line in settings] == ["MAILTO", "RLOCK_MASTERS"]
    commands = [line.split(maxsplit=FIELDS)[FIELDS] for line in lines[len(settings) :]]
    here = [re.sub(r"/opt/rlock/bin|/srv/report|/srv", str(folder), command) for command in commands]
    return {re.findall(r" (\w+) -- ", command)[0]: command for command in here}


def runs(folder: Path) -> int:
    ran = folder / "ran"
    return len(ran.read_text().split()) if ran.exists() else 0


@pytest.mark.parametrize("job", ["nightly", "import"])
def test_a_second_run_is_skipped_or_waits_for_the_one_before(start: Start, tmp_path: Path, job: str) -> None:
    line = crontab(tmp_path)[job]
    first = start("/bin/sh", "-c", line)  # as cron does
    assert eventually(lambda: runs(tmp_path), 20)
    second = start("/bin/sh", "-c", line)
    if job == "nightly":
        assert "'nightly' is held by" in second.communicate(timeout=30)[0]
    else:
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(1)
    assert runs(tmp_path) == 1
    (tmp_path / "go-on").touch()
    assert first.wait(30) == 3, "the job's own status"
    assert second.wait(30) == (75 if job == "nightly" else 3)
    assert runs(tmp_path) == (1 if job == "nightly" else 2)


def test_the_service_skips_a_run_like_the_crontab(tmp_path: Path) -> None:
    unit = configparser.ConfigParser(strict=False)
    unit.read_string(block(PAGE, "nightly.service"))
    assert unit["Service"]["ExecStart"].partition("/rlock ")[2] in crontab(tmp_path)["nightly"]
    assert unit["Service"]["SuccessExitStatus"] == "75"


def test_of_two_schedulers_one_runs_the_job_and_the_other_skips_it(start: Start, tmp_path: Path) -> None:
    pytest.importorskip("apscheduler", reason="apscheduler is in the extra test")
    lay_out(PAGE, tmp_path, {"jobs.py": ("seconds=60", "seconds=1")})
    log = tmp_path / "log"
    command = (
        "import logging, runpy; logging.basicConfig(level=logging.INFO); "
        "runpy.run_path('jobs.py', run_name='__main__')"
    )
    with log.open("a") as file:
        for _ in range(2):
            start(PYTHON, "-c", command, stdout=file)
        assert eventually(lambda: "was skipped" in log.read_text() and "cleanup" in log.read_text(), 20)
