"""What a contestant that fails looks like: an error with the reason, and nothing left behind."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from bench.harness import environments
from bench.harness.contestant import Contestant, Failed, Unsupported
from bench.harness.field import ALL, Entry, field

from ..servers import Fleet
from .contestants import TTL_MS, entry


def script(text: str) -> Contestant:
    return Contestant([sys.executable, "-c", text])


def test_a_worker_that_dies_is_told_with_its_last_words() -> None:
    with script("import sys; input(); sys.exit('RuntimeError: out of luck')") as contestant:
        with pytest.raises(Failed, match="it has ended: RuntimeError: out of luck"):
            contestant.ask("pairs", lock="a", count=1)
        with pytest.raises(Failed, match="it has ended: RuntimeError: out of luck"):
            contestant.ask("usage")


def test_a_worker_that_does_not_answer_is_given_up_and_ended() -> None:
    with script("import time; time.sleep(60)") as contestant:
        began = time.monotonic()
        with pytest.raises(Failed, match=r"no answer within 0\.3 s"):
            contestant.ask("usage", 0.3)
        assert time.monotonic() - began < 3
    with pytest.raises(ProcessLookupError):
        os.kill(contestant.pid, 0)


@pytest.mark.parametrize("line", ["hello", "[1]", "{}"])
def test_what_is_no_reply_is_a_failure_that_shows_it(line: str) -> None:
    with (
        script(f"input(); print({line!r}, flush=True); input()") as contestant,
        pytest.raises(Failed, match="no reply of the protocol: "),
    ):
        contestant.ask("usage", 5)


def test_a_program_that_is_not_there_is_a_failure() -> None:
    with pytest.raises(Failed, match=r"cannot be started: .*no-such-program"):
        Contestant(["/no-such-program"])


@pytest.mark.parametrize("key", ["rlock", "rlock-asyncio", "redis-py"])
def test_an_error_of_the_library_is_an_error_of_the_row_and_the_worker_goes_on(
    masters1: Fleet, key: str
) -> None:
    with entry(key).open(masters1.urls, TTL_MS) as contestant:
        with pytest.raises(Failed, match=r"^\w+Error: "):
            contestant.ask("release", lock="never acquired")
        assert len(contestant.ask("pairs", lock="a", count=2)["ns"]) == 2


@pytest.mark.parametrize("key", ["rlock", "rlock-asyncio"])
def test_pairs_that_fail_are_counted_and_have_no_time(masters1: Fleet, key: str) -> None:
    import redis

    with entry(key).open(masters1.urls, TTL_MS) as contestant:
        redis.Redis.from_url(masters1.urls[0]).set("a", "not a lock")
        reply = contestant.ask("pairs", lock="a", count=2)
        assert reply["ns"] == []
        assert len(reply["errors"]) == 2
        assert "OptionsError" in reply["errors"][0]


def test_a_request_before_open_or_of_no_kind_is_refused() -> None:
    with entry("rlock").start() as contestant:
        with pytest.raises(Failed, match="not opened"):
            contestant.ask("pairs", lock="a", count=1)
        with pytest.raises(Unsupported, match="no request sing"):
            contestant.ask("sing")


@pytest.mark.parametrize("key", ["redis-py", "floor-all", "floor-majority", "floor-c"])
def test_masters_that_are_not_there_are_told_by_open(key: str) -> None:
    with pytest.raises(Failed, match=r"Connection ?(Error|refused)"):
        entry(key).open(["redis://127.0.0.1:1"], TTL_MS)


def test_an_environment_that_cannot_be_built_is_the_reason_of_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "FOLDER", tmp_path / "environments")
    monkeypatch.setattr(environments, "REQUIREMENTS", tmp_path)
    (tmp_path / "broken.txt").write_text("file:///no-such-package\n")
    broken = Entry("broken", "broken", "peer", "Python", "one", False, "python/broken", "a:B")
    lacking = Entry("lacking", "lacking", "peer", "Fortran", "one", False, "fortran", "a")
    from bench.harness.field import prepare

    try:
        reasons = prepare([broken, lacking, *field(["rlock"])])
        assert set(reasons) == {"broken", "lacking"}
        assert "no-such-package" in reasons["broken"]
        assert "fortran" in reasons["lacking"]
        assert not any("\n" in reason for reason in reasons.values())
        with pytest.raises(Failed, match="no-such-package"):
            broken.start()
    finally:
        for name in ("python/broken", "fortran"):
            environments._made.pop(name, None)


def test_a_build_that_broke_off_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "FOLDER", tmp_path)

    def half(folder: Path) -> None:
        (folder / "half").touch()
        raise Failed("broken off")

    built: list[Path] = []
    with pytest.raises(Failed):
        environments.cached("some", [b"state"], half)
    folder = environments.cached("some", [b"state"], built.append)
    assert not (folder / "half").exists()
    assert environments.cached("some", [b"state"], built.append) == folder
    assert built == [folder]
    assert environments.cached("some", [b"another state"], built.append) != folder


def test_a_key_that_nobody_has_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"^no such contestant: nobody; there are rlock, .*") as refused:
        field(["rlock", "nobody"])
    assert "\n" not in str(refused.value)


def test_every_contestant_has_a_key_and_a_title_of_its_own() -> None:
    assert len({found.key for found in ALL}) == len({found.title for found in ALL}) == len(ALL)
    assert field() == list(ALL)
    assert [found.key for found in field(["redis-py", "rlock"])] == ["rlock", "redis-py"]
    for found in ALL:
        assert (found.poll_ms is not None) == found.tuned == found.key.endswith("-tuned")
