"""Progress bars."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import track

T = TypeVar("T")


def bar(steps: Iterable[T] | Sequence[T], description: str, *, shown: bool) -> Iterable[T]:
    """Go through ``steps`` with a bar on stderr, if it is to be shown and stderr is a terminal."""
    console = Console(stderr=True)
    return track(
        steps, description=description, disable=not (shown and console.is_terminal), transient=True, console=console
    )
