"""Spots in chunks: each in one, few enough at once, and nothing read between those that lie far apart."""

import numpy as np
import pytest

from genar.slide.chunks import by_region, in_turn

CELL, BLOCK = np.array([2048.0, 2048.0]), np.array([256.0, 256.0])


def split(corners, side=224, cell=CELL, block=BLOCK, most=256):
    chunks = by_region(corners, side, cell=cell, block=block, most=most)
    spots = np.concatenate(chunks)
    np.testing.assert_array_equal(np.sort(spots), np.arange(len(corners)))
    assert max(map(len, chunks)) <= most
    return chunks


def blocks(corners, side=224):
    """How many blocks lie under the rectangle around tiles."""
    low, high = corners.min(axis=0) // 256, (corners.max(axis=0) + side - 1) // 256
    return int((high - low + 1).prod())


def test_in_turn():
    assert in_turn(0) == []
    assert [len(chunk) for chunk in in_turn(130)] == [64, 64, 2]
    np.testing.assert_array_equal(np.concatenate(in_turn(130)), np.arange(130))


@pytest.mark.parametrize("pitch", [20, 73, 146, 1000])
def test_a_lattice_is_read_cell_by_cell(pitch):
    side = 60 * pitch
    corners = np.stack(np.meshgrid(*[np.arange(-500, side, pitch)] * 2), axis=-1).reshape(-1, 2)
    chunks = split(corners)
    rows = [int(corners[chunk, 1].min() // 2048) for chunk in chunks]
    assert rows == sorted(rows)
    for chunk in chunks:
        assert (np.ptp(corners[chunk], axis=0) < 2048).all()
        assert (np.diff(chunk) > 0).all()
    if pitch <= 146:
        assert np.mean([len(chunk) for chunk in chunks]) > 100
        assert sum(blocks(corners[chunk]) for chunk in chunks) < len(corners) * 5


def test_the_order_of_spots_does_not_matter():
    corners = np.random.default_rng(0).integers(0, 5000, (3000, 2))
    shuffled = np.random.default_rng(1).permutation(3000)
    here = [{tuple(corner) for corner in corners[chunk].tolist()} for chunk in split(corners)]
    there = [{tuple(corner) for corner in corners[shuffled][chunk].tolist()} for chunk in split(corners[shuffled])]
    assert here == there


def test_what_lies_between_spots_far_apart_is_not_read():
    """In one cell, the corners of which hold ten tiles each."""
    near = np.random.default_rng(0).integers(0, 100, (10, 2))
    corners = np.concatenate([near + [x, y] for x in (0, 1900) for y in (0, 1900)])
    chunks = split(corners)
    assert sum(blocks(corners[chunk]) for chunk in chunks) <= sum(blocks(corners[i : i + 1]) for i in range(40)) / 2
    assert len(chunks) == 4


def test_many_spots_at_one_place():
    assert [len(chunk) for chunk in split(np.zeros((1000, 2), dtype=np.int64))] == [250] * 4


def test_no_spots():
    assert by_region(np.empty((0, 2), dtype=np.int64), 224, cell=CELL, block=BLOCK, most=256) == []
