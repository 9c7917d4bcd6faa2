"""The checks: pure functions from facts to what is to be said of them. One file for each kind of question."""

from . import reach, access, state, disk, limits, clocks, fleet  # noqa: F401, I001  (in the order of the page)
