"""Progress bars."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress, track

T = TypeVar("T")


def bar(steps: Iterable[T] | Sequence[T], description: str, *, shown: bool) -> Iterable[T]:
    """Go through ``steps`` with a bar on stderr, if it is to be shown and stderr is a terminal."""
    console = Console(stderr=True)
    return track(
        steps, description=description, disable=not (shown and console.is_terminal), transient=True, console=console
    )


@contextmanager
def counter(description: str, total: int, *, done: int = 0, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show such a bar for steps that come several at a time; yields a function to be told how many came."""
    console = Console(stderr=True)
    disable = not (shown and console.is_terminal)
    with Progress(*Progress.get_default_columns(), console=console, transient=True, disable=disable) as progress:
        task = progress.add_task(description, total=total, completed=done)
        yield lambda n: progress.advance(task, n)
