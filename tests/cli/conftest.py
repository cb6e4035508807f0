"""The command line, run in this process."""

import signal
from collections.abc import Callable, Iterator

import pytest

from genar.cli import app


@pytest.fixture(autouse=True)
def _restore_signal() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def genar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process; return its status, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            app.main(words)
        return (left.value.code or 0, *capsys.readouterr())

    return run
