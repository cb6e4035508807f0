"""Batches: each spot once an epoch, the same for a seed and an epoch, and shared out among processes."""

from dataclasses import replace

import numpy as np
import pytest

from genar.data.module import Batches
from genar.data.spots import SpotTable
from tests.data.test_spots import ENCODER, section


@pytest.fixture
def table() -> SpotTable:
    random = np.random.default_rng(0)
    return SpotTable.of([section(random.random((n, 2)) * 100, name=f"S{n}") for n in (13, 8)], None, ENCODER)


def rows(batches: Batches) -> np.ndarray:
    return np.concatenate([draw.rows for draw in batches])


def test_an_epoch_holds_each_spot_at_most_once_and_all_but_a_rest(table: SpotTable) -> None:
    batches = Batches(table, 4, seed=1)
    found = rows(batches)
    assert len(batches) == len(list(batches)) == 5
    assert len(found) == len(set(found)) == 20
    assert sorted(rows(Batches(table, 64, seed=1))) == list(range(21))  # the only batch, if small


def test_validation_holds_each_spot_once_in_order(table: SpotTable) -> None:
    batches = Batches(table, 4, seed=None)
    assert len(batches) == 6
    assert rows(batches).tolist() == list(range(21))


def test_the_order_is_the_epochs_own(table: SpotTable) -> None:
    batches = Batches(table, 4, seed=1)
    first = rows(batches)
    batches.set_epoch(1)
    second = rows(batches)
    assert not np.array_equal(first, second)
    resumed = Batches(table, 4, seed=1)
    resumed.set_epoch(1)
    assert np.array_equal(rows(resumed), second)
    assert not np.array_equal(rows(Batches(table, 4, seed=2)), first)


def test_processes_share_each_batch(table: SpotTable) -> None:
    whole = list(Batches(table, 4, seed=1))
    parts = [list(Batches(table, 4, seed=1, rank=rank, processes=2)) for rank in (0, 1)]
    for draw, *own in zip(whole, *parts, strict=True):
        assert [len(d.rows) for d in own] == [2, 2]
        assert sorted(np.concatenate([d.rows for d in own])) == sorted(draw.rows)


def test_views_are_drawn_for_training_alone(table: SpotTable) -> None:
    views = tuple(np.stack([f + 10 * (v + 1) for v in range(3)], axis=1) for f in table.features)
    table = replace(table, views=views)
    draws = [draw for seed in range(30) for draw in Batches(table, 21, seed)]
    taken = np.concatenate([d.views for d in draws])
    np.testing.assert_allclose(np.bincount(taken) / len(taken), 0.25, atol=0.05)
    draw = draws[0]
    plain = table.batch(draw.rows)["features"].numpy()
    np.testing.assert_allclose(table[draw]["features"].numpy(), plain + 10 * draw.views[:, None], rtol=1e-5)
    assert not np.concatenate([d.views for d in Batches(table, 4, seed=None)]).any()
