"""rlock under eventlet, monkey-patched."""

from __future__ import annotations

from .greenlets import GreenletContract
from .programs import needs

pytestmark = needs("eventlet")


class TestGreenlets(GreenletContract):
    library = "eventlet"
