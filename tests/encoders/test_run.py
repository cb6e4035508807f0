"""Encoding tiles: the same features whatever the chunks, the processes that read them, and where it goes on."""

import multiprocessing
import os
import signal

import numpy as np
import pytest
import torch

from genar.encoders.registry import Encoder, create
from genar.encoders.run import batches, encode, order, workers_for
from genar.errors import GenarError, SlideError

N = 11


class Tiles:
    """Tiles of random pixels, in the chunks that are given."""

    def __init__(self, chunks: list[list[int]]) -> None:
        generator = torch.Generator().manual_seed(0)
        self.tiles = torch.randint(0, 256, (N, 3, 224, 224), dtype=torch.uint8, generator=generator)
        self.chunks = [np.array(spots, dtype=np.int64) for spots in chunks]

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.tiles[self.chunks[index]]


class Damaged(Tiles):
    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 1:
            raise SlideError("a.svs", "its pixels cannot be decoded", "scan it again")
        return super().__getitem__(index)


class Killed(Tiles):
    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


WHOLE = [list(range(N))]
PARTS = [[3], [0, 1, 2], [], [4, 5, 6, 7, 8, 9], [10]]
SHUFFLED = [[7, 2, 9, 4], [0, 1, 3, 5, 6, 8, 10]]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return create("efficientnet_lite0")


@pytest.fixture(scope="module")
def features(encoder: Encoder) -> np.ndarray:
    with torch.inference_mode():
        return np.concatenate([encoder(tile[None]).numpy() for tile in Tiles(WHOLE).tiles])


@pytest.mark.parametrize("chunks", [WHOLE, PARTS, SHUFFLED])
@pytest.mark.parametrize("workers", [0, 2])
def test_features_are_in_the_order_of_spots(
    encoder: Encoder, features: np.ndarray, chunks: list[list[int]], workers: int
) -> None:
    values = encode(encoder, Tiles(chunks), batch_size=4, workers=workers)
    assert values.shape == (N, encoder.spec.dim)
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, features, atol=1e-4)
    assert all(np.abs(a - b).mean() > 0.01 for a, b in zip(values, values[1:], strict=False))


def test_batches_are_made_alike_whatever_the_chunks(encoder: Encoder) -> None:
    seen = []
    for ends in ([], range(1, N), [4, 8], [7], [3, 4, 9]):
        chunks = [chunk.tolist() for chunk in np.split(np.arange(N), ends)]
        seen.append(list(batches(encoder, Tiles(chunks), batch_size=4)))
        assert [len(batch) for batch in seen[-1]] == [4, 4, 3]
    for other in seen[1:]:
        np.testing.assert_array_equal(np.concatenate(other), np.concatenate(seen[0]))


@pytest.mark.parametrize("workers", [0, 1])
def test_going_on_gives_the_same_bits(encoder: Encoder, workers: int) -> None:
    tiles = Tiles(SHUFFLED)
    whole = np.concatenate(list(batches(encoder, tiles, batch_size=3)))
    assert order(tiles).tolist() == sum(SHUFFLED, [])
    for start in (0, 3, 6, 9, 11):
        rest = list(batches(encoder, tiles, start=start, batch_size=3, workers=workers))
        got = np.concatenate([np.empty((0, encoder.spec.dim), np.float32), *rest])
        np.testing.assert_array_equal(got, whole[start:])


def test_no_tiles(encoder: Encoder) -> None:
    assert encode(encoder, Tiles([])).shape == (0, encoder.spec.dim)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_tile_that_cannot_be_read(encoder: Encoder, workers: int) -> None:
    with pytest.raises(SlideError, match=r"^a.svs: its pixels cannot be decoded; scan it again$"):
        encode(encoder, Damaged(PARTS), batch_size=2, workers=workers)


def test_a_worker_that_is_killed(encoder: Encoder) -> None:
    with pytest.raises(GenarError, match=r"^reading tiles: a worker process was killed.*--workers"):
        encode(encoder, Killed(PARTS), batch_size=2, workers=1)


def test_progress_leaves_stdout_alone(encoder: Encoder, capfd: pytest.CaptureFixture[str]) -> None:
    encode(encoder, Tiles(WHOLE), progress=True)
    assert capfd.readouterr() == ("", "")


def test_progress_counts_tiles(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[tuple[str, int]] = []
    shown = "genar.progress.Progress"
    monkeypatch.setattr(f"{shown}.add_task", lambda *_, total, completed, **__: counted.append((total, completed)))
    monkeypatch.setattr(f"{shown}.advance", lambda _, __, n: counted.append(n))
    list(batches(encoder, Tiles(PARTS), start=4, batch_size=4))
    assert counted == [(N, 4), 4, 3]


def test_workers_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert workers_for("cpu") == 0
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(3), raising=False)
    assert workers_for("cuda:1") == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(96))
    assert workers_for(torch.device("cuda")) == 8
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
    assert workers_for("cuda") == 0
