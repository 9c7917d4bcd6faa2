"""`rlock doctor`: `examine` collects facts from each master, `diagnose` runs all checks, `report` prints.

The checks are in reach_checks.py, state_checks.py and fleet_checks.py; importing them fills the table.
"""

from . import reach_checks, state_checks, fleet_checks  # noqa: F401, I001  (in the order of docs/doctor.md)
