"""The documents say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import rlock
from rlock.model import LeaseState
from rlock.rules.lease import TRANSITIONS

TOP = Path(rlock.__file__).resolve().parent.parent
FINAL = (LeaseState.LOST, LeaseState.RELEASED)


def test_the_diagram_of_a_lease_is_the_table_of_the_code() -> None:
    text = (TOP / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    drawn = set(re.findall(r"^ +(\w+) --> (\w+): (.+)$", text, re.MULTILINE))
    table = {
        (before.value, after.value, event.value)
        for (before, event), after in TRANSITIONS.items()
        if not (before is after and before in FINAL)
    }
    assert drawn == table


def test_links_between_documents_lead_somewhere() -> None:
    pages = (page for folder in ("docs", "evidence") for page in (TOP / folder).rglob("*.md"))
    for document in [TOP / "README.md", *pages]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_a_test_that_a_document_names_is_in_the_file_that_it_links_to() -> None:
    named = 0
    for document in (TOP / "docs").rglob("*.md"):
        text = document.read_text(encoding="utf-8")
        for name, target in re.findall(r"\[(test_\w+)\]\(([^)#]+)\)", text):
            named += 1
            assert f"def {name}(" in (document.parent / target).read_text(encoding="utf-8"), name
    assert named > 50
