"""rlock under gevent, monkey-patched."""

from __future__ import annotations

from .greenlets import GreenletContract
from .programs import needs

pytestmark = needs("gevent")


class TestGreenlets(GreenletContract):
    library = "gevent"
