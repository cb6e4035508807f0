"""One process at a time: a lock file that is known to be stale when its holder has died."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import SoftFileLease, Timeout

logger: logging.Logger = logging.getLogger("genar")

LEASE_S = 180.0  # without a sign of life, after which a holder on another host counts as dead
HEARTBEAT_S = 30.0  # between its signs of life
POLL_S = 1.0


@contextmanager
def held(path: Path, work: str) -> Iterator[None]:
    """Hold a lock; wait for it if another process has it.

    The file is created atomically, and says which process on which host holds it. A holder on this host that has died
    (or whose process id is another process's now) is replaced at once; one on another host when the file has not been
    touched for three minutes. A holder that only stood still for so long goes on when it wakes: what the lock guards
    must then be slow to do twice, not harmful.

    Parameters
    ----------
    path
        The lock file, in a folder that exists; gone when the lock is given back.
    work
        What is done under it, for the message of one that waits: "encoding slide.svs".

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    lease = SoftFileLease(path, lease_duration=LEASE_S, heartbeat_interval=HEARTBEAT_S)
    try:
        lease.acquire(timeout=0)
    except Timeout:
        owner = lease.owner
        who = f"process {owner.pid} on {owner.hostname}" if owner else "another process"
        logger.info("%s is %s; waiting (lock: %s)", who, work, path)
        lease.acquire(poll_interval=POLL_S)
    try:
        yield
    finally:
        lease.release()
