"""An encoding that was stopped goes on where it was."""

import numpy as np
import pytest
import tifffile

from genar import pp
from genar.encoders import cache as cache_module
from genar.encoders.cache import features
from genar.encoders.partial import growing
from genar.encoders.registry import Encoder, create
from genar.encoders.run import batches
from genar.slide.tiles import open_tiles

OPTIONS = {"encoder": "efficientnet_lite0", "tile_um": 154.0, "views": 1, "batch_size": 2}
HEAD = 16 * 4 + 32


class Stopped(Exception):
    """Stands for whatever ends a process."""


@pytest.fixture(scope="module")
def section(tmp_path_factory):
    path = tmp_path_factory.mktemp("slide") / "s.tif"
    image = np.random.default_rng(0).integers(60, 220, (400, 400, 3), dtype=np.uint8)
    tifffile.imwrite(path, image, tile=(256, 256), photometric="rgb", metadata=None)
    return pp.spots(path, "st", mpp=2.0, min_tissue=0)[:5].copy()


@pytest.fixture(scope="module")
def wanted(section, tmp_path_factory):
    """What a run that is not stopped gives."""
    return features(section, cache=tmp_path_factory.mktemp("whole"), **OPTIONS)


@pytest.fixture(scope="module")
def network():
    return create("efficientnet_lite0")


@pytest.fixture(autouse=True)
def _one_network(network, monkeypatch):
    monkeypatch.setattr(cache_module, "create", lambda *_: network)


@pytest.fixture
def stop(section, monkeypatch):
    """Leave a cache in which a number of batches are done, and return its unfinished file."""

    def stop(cache, number):
        left = [number]

        def few(*args, **options):
            for batch in batches(*args, **options):
                if left[0] == 0:
                    raise Stopped
                left[0] -= 1
                yield batch

        with monkeypatch.context() as patched:
            patched.setattr(cache_module, "batches", few)
            with pytest.raises(Stopped):
                features(section, cache=cache, **OPTIONS)
        assert {path.suffix for path in cache.iterdir()} == {".partial", ".json"}
        (partial,) = cache.glob("*.partial")
        return partial

    return stop


def same(found, wanted):
    np.testing.assert_array_equal(found.plain, wanted.plain)
    np.testing.assert_array_equal(found.views, wanted.views)
    assert {path.suffix for path in found.path.parent.iterdir()} == {".h5", ".json"}


# batches are of 2, 2 and 1 tiles, then of as many of their views
@pytest.mark.parametrize(("number", "done"), [(1, 2), (3, 5), (5, 9)])
def test_a_stopped_run_goes_on(section, tmp_path, wanted, stop, encoded, number, done):
    partial = stop(tmp_path, number)
    assert partial.stat().st_size == HEAD + done * 1280 * 4
    same(features(section, cache=tmp_path, **OPTIONS), wanted)
    assert encoded.tiles == 10 - done


def test_a_run_stopped_before_the_entry_was_written_encodes_nothing(section, tmp_path, wanted, encoded, monkeypatch):
    def full(*_):
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(cache_module, "write_entry", full)
        with pytest.raises(Stopped):
            features(section, cache=tmp_path, **OPTIONS)
    assert encoded.tiles == 10
    same(features(section, cache=tmp_path, **OPTIONS), wanted)
    assert encoded.tiles == 10


@pytest.mark.parametrize("tail", [1, 1280 * 4, 1280 * 4 + 1])
def test_a_torn_batch_is_cut_off(section, tmp_path, wanted, stop, encoded, tail):
    partial = stop(tmp_path, 1)
    with partial.open("ab") as file:
        file.write(b"\x3f" * tail)
    same(features(section, cache=tmp_path, **OPTIONS), wanted)
    assert encoded.tiles == 8


def test_another_batch_size_goes_on_too(section, tmp_path, wanted, stop, encoded):
    stop(tmp_path, 1)
    found = features(section, cache=tmp_path, **(OPTIONS | {"batch_size": 4}))
    assert encoded.tiles == 10  # two tiles are no whole batch of four
    np.testing.assert_allclose(found.plain, wanted.plain, atol=1e-4)


def test_other_numerics_begin_anew(section, tmp_path, wanted, stop, encoded, monkeypatch, caplog):
    fingerprint = Encoder.fingerprint
    with monkeypatch.context() as patched:
        patched.setattr(Encoder, "fingerprint", lambda self: fingerprint(self) * np.float32(1.01))
        stop(tmp_path, 3)
    with caplog.at_level("INFO", "genar"):
        same(features(section, cache=tmp_path, **OPTIONS), wanted)
    assert encoded.tiles == 10
    assert "was begun by another encoder" in caplog.text


def test_it_is_said_that_a_run_goes_on(section, tmp_path, stop, caplog):
    stop(tmp_path, 1)
    with caplog.at_level("INFO", "genar"):
        features(section, cache=tmp_path, **OPTIONS)
    assert "2 of 10 tiles were encoded before" in caplog.text


FINGERPRINT = np.linspace(-1, 1, 16, dtype=np.float32)
ROWS = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)


def grown(path, *, fingerprint=FINGERPRINT, order=(2, 0, 1, 3), batch_size=2):
    """Open the rows of four spots and one view of each."""
    return growing(path, fingerprint, np.array(order), 3, 1, batch_size)


@pytest.fixture
def half(tmp_path):
    path = tmp_path / "p"
    with grown(path) as rows:
        assert rows.done == 0
        rows.append(ROWS[:4])
        rows.append(ROWS[4:6])
    return path


def test_rows_are_as_they_were_appended(half):
    with grown(half) as rows:
        assert rows.done == 6
        rows.append(ROWS[6:])
        np.testing.assert_array_equal(rows.values(8), ROWS)


@pytest.mark.parametrize(
    "change",
    [
        {"order": (0, 1, 2, 3)},
        {"order": (2, 0, 1, 3, 4)},
        {"fingerprint": FINGERPRINT + np.float32(1e-3)},
        {"fingerprint": FINGERPRINT * np.float32(np.nan)},
    ],
)
def test_rows_of_another_order_or_encoder_are_dropped(half, change):
    with grown(half, **change) as rows:
        assert rows.done == 0
        assert half.stat().st_size == HEAD


def test_rounding_is_no_other_encoder(half):
    with grown(half, fingerprint=FINGERPRINT * np.float32(1 + 1e-6)) as rows:
        assert rows.done == 6


@pytest.mark.parametrize(("zero", "done"), [(5, 4), (4, 2), (1, 0), (3, 2)])
def test_rows_that_a_power_cut_left_empty_are_dropped(half, zero, done):
    with half.open("r+b") as file:
        file.seek(HEAD + zero * 12)
        file.write(bytes(12))
    with grown(half) as rows:
        assert rows.done == done


def test_so_is_a_row_of_which_a_part_was_left_empty(half):
    with half.open("r+b") as file:
        file.seek(HEAD + 3 * 12 + 4)
        file.write(bytes(8 + 2 * 12))
    with grown(half) as rows:
        assert rows.done == 2


@pytest.mark.parametrize("size", [0, 10, HEAD - 1, HEAD, HEAD + 11])
def test_a_file_cut_short_is_begun_anew(half, size):
    half.write_bytes(half.read_bytes()[:size])
    with grown(half) as rows:
        assert rows.done == 0
        rows.append(ROWS)
        np.testing.assert_array_equal(rows.values(8), ROWS)


def test_a_file_without_a_row_does_not_stay(tmp_path):
    with grown(tmp_path / "p"):
        assert (tmp_path / "p").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_too_long_is_cut(half):
    half.write_bytes(half.read_bytes() + ROWS.tobytes())
    with grown(half) as rows:
        assert rows.done == 8
        np.testing.assert_array_equal(rows.values(6), ROWS[:6])


def test_one_that_lost_the_lock_while_asleep_does_no_harm(half):
    with grown(half) as asleep, grown(half) as rows:
        asleep.append(ROWS[:1])
        rows.append(ROWS[6:])
        asleep.append(ROWS[:1])
        np.testing.assert_array_equal(rows.values(8), ROWS)
        np.testing.assert_array_equal(asleep.values(8), np.concatenate([ROWS[:6], ROWS[:1], ROWS[:1]]))


def test_no_row_is_read_twice(section, network):
    """``batches`` leaves out what is done, to the very tile."""
    with open_tiles(section, 154.0, 224) as tiles:
        whole = list(batches(network, tiles, batch_size=2))
        rest = list(batches(network, tiles, batch_size=2, start=2))
    assert [len(batch) for batch in rest] == [2, 1]
    np.testing.assert_array_equal(np.concatenate(rest), np.concatenate(whole)[2:])
