"""Numbers as the page holds them, unpacked here as the browser does."""

import base64
import gzip

import numpy as np
import pytest

from genar.write.report.pack import halved, pack_gene


@pytest.mark.parametrize(("largest", "width"), [(255, 1), (256, 2), (65535, 2), (65536, 4), (2**32 - 1, 4)])
def test_counts_are_exact_in_as_few_bytes_as_hold_them(largest: int, width: int) -> None:
    counts = np.array([0, 1, largest, 7], dtype=np.uint32)
    content = gzip.decompress(base64.b64decode(pack_gene(counts, [])))
    planes = np.frombuffer(content, np.uint8).reshape(width, 4).astype(np.int64)
    np.testing.assert_array_equal((planes * 256 ** np.arange(width)[:, None]).sum(axis=0), counts)


def test_layers_follow_the_counts_to_one_part_in_512() -> None:
    values = np.concatenate([np.random.default_rng(0).lognormal(0, 5, 997), [0, 1e-30, 3e38]]).astype(np.float32)
    content = gzip.decompress(base64.b64decode(pack_gene(np.zeros(1000, np.uint32), [values])))
    low, high = np.frombuffer(content[1000:], np.uint8).reshape(2, 1000).astype(np.uint32)
    np.testing.assert_allclose(((low << 15) | (high << 23)).view(np.float32), values, rtol=1 / 512)


def test_ties_go_to_even_and_nan_stays() -> None:
    bits = np.array([0x3F804000, 0x3F80C000, 0x3F804001, 0x7FFFFFFF, 0xBF800000], dtype=np.uint32)
    assert [hex(v) for v in halved(bits.view(np.float32))] == ["0x7f00", "0x7f02", "0x7f01", "0xff80", "0x0"]
