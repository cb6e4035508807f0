"""How much memory this process has held."""

import resource
import sys
from contextlib import suppress
from pathlib import Path

STATUS, CLEAR, PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs"), "5"


def forget_peak() -> None:
    """Let the peak begin anew; only Linux can, elsewhere it stays that of the whole process so far."""
    with suppress(OSError):
        CLEAR.write_text(PEAK)


def peak_gb() -> float:
    """Return the most memory that this process has held since :func:`forget_peak`, in GB (10^9 bytes).

    Without the memory of a GPU, and of processes that read tiles for this one.
    """
    with suppress(OSError, StopIteration):
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024 / 1e9
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
