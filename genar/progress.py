"""Progress bars."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress

T = TypeVar("T")


def bar(steps: Sequence[T], description: str, *, shown: bool) -> Iterator[T]:
    """Go through ``steps`` with a bar on stderr, if it is to be shown and stderr is a terminal."""
    with counter(description, len(steps), shown=shown) as advance:
        for step in steps:
            yield step
            advance(1)


@contextmanager
def counter(description: str, total: int, *, done: int = 0, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show such a bar for steps that come several at a time; yields a function to be told how many came."""
    console = Console(stderr=True)
    disable = not (shown and console.is_terminal)
    with Progress(*Progress.get_default_columns(), console=console, transient=True, disable=disable) as progress:
        task = progress.add_task(description, total=total, completed=done)
        yield lambda n: progress.advance(task, n)
