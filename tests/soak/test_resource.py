"""The cells that the soak's locks protect: a lost update is seen, and a fenced cell loses none."""

from __future__ import annotations

from pathlib import Path

import pytest

from .resource import Resource, tally


@pytest.fixture
def resource(tmp_path: Path) -> Resource:
    return Resource(tmp_path / "resource.db").create()


def test_updates_one_upon_the_other_are_all_there(resource: Resource) -> None:
    last = resource.read("plain")
    for ident in "abc":
        assert last is not None
        assert resource.write("plain", ident, last)
        last = resource.read("plain")
    told = resource.tally("plain")
    assert (told.acknowledged, told.lost, told.percent) == (3, 0, 0.0)


def test_an_update_that_was_overwritten_unseen_is_lost(resource: Resource) -> None:
    resource.write("plain", "a", "")
    resource.write("plain", "b", "a")
    resource.write("plain", "late", "a")  # read before b was written
    told = resource.tally("plain")
    assert (told.acknowledged, told.lost) == (3, 1)
    assert str(told) == "1 of 3 (33.3 %)"


def test_a_fenced_cell_refuses_a_write_with_a_lower_token(resource: Resource) -> None:
    assert resource.read("fenced", 1) == ""
    assert resource.read("fenced", 2) == ""
    assert resource.write("fenced", "b", "", 2)
    assert not resource.write("fenced", "a", "", 1)
    assert resource.tally("fenced").lost == 0


def test_a_fenced_cell_has_to_see_the_token_when_it_is_read() -> None:
    # Without: the first write is taken, because the second holder has only read so far.
    assert tally({"a": "", "b": ""}, "b").lost == 1


def test_a_fenced_cell_refuses_a_write_between_the_read_and_the_write_of_the_next(resource: Resource) -> None:
    resource.read("fenced", 1)
    last = resource.read("fenced", 2)
    assert not resource.write("fenced", "a", "", 1)
    assert resource.write("fenced", "b", last or "", 2)
    assert resource.read("fenced", 1) is None
    assert resource.tally("fenced").lost == 0


def test_the_same_token_may_write_again(resource: Resource) -> None:
    resource.read("fenced", 5)
    assert resource.write("fenced", "a", "", 5)
    assert resource.write("fenced", "b", "a", 5)


def test_nothing_acknowledged_is_nothing_lost() -> None:
    assert (tally({}, "").percent, tally({}, "x").lost) == (0.0, 0)
