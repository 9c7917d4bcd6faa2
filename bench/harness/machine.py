"""What a run ran on."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

from . import masters, placing

GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def describe() -> dict[str, Any]:
    """The machine as it is now: call it before anything is started, for the load."""
    server = masters.server()
    told: dict[str, Any] = {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "system": f"{platform.system()} {platform.machine()}",
        "kernel": platform.release(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "server": str(server),
        "server_path": str(server.path),
        "placing": placing.described(),
        "load_before": [round(load, 2) for load in os.getloadavg()],
    }
    governor = _read(GOVERNOR).strip()
    if governor:
        told["governor"] = governor
    return told


def _cpu() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", _read(Path("/proc/cpuinfo")), re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
