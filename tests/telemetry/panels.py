"""The queries of the dashboard and of the alert rules, as Prometheus is asked them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..docs.pages import DOCS

DASHBOARD = DOCS / "grafana" / "rlock.json"
ALERTS = DOCS / "prometheus" / "alerts.yml"
ALERTS_TEST = DOCS / "prometheus" / "alerts_test.yml"


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return loaded


def panels() -> list[dict[str, Any]]:
    """Those that show something."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def queries(interval: str, range_: str) -> Iterator[tuple[str, str]]:
    """Title and expression of each, with Grafana's variables filled in as for "All"."""
    for panel in panels():
        for target in panel["targets"]:
            expression = target["expr"]
            for variable, value in (
                ("$__rate_interval", interval),
                ("$__range", range_),
                ("$job", ".*"),
                ("$lock", ".*"),
            ):
                expression = expression.replace(variable, value)
            assert "$" not in expression, f"{panel['title']}: a variable that Grafana does not fill in"
            yield f"{panel['title']} {target['refId']}", expression
