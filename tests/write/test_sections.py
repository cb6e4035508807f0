from pathlib import Path

import numpy as np
import pytest
from anndata import AnnData

from genar import keys
from genar.errors import DataError
from genar.read.table import read_table
from genar.write.sections import sections_of


def test_spots_of_each_section(cohort: AnnData) -> None:
    mixed = cohort[::-1]
    found = sections_of(mixed, "x")
    assert [s.name for s in found] == ["two", "one"]
    assert found[1].rows.tolist() == list(range(6, 12))
    np.testing.assert_array_equal(found[0].centres, mixed.obsm[keys.SPATIAL][:6])


def test_visium_as_scanpy_reads_it(result: AnnData) -> None:
    entry = result.uns[keys.SPATIAL]["one"]
    del result.obs[keys.LIBRARY_ID], entry[keys.METADATA]
    entry[keys.IMAGES][keys.HIRES] = (entry[keys.IMAGES][keys.HIRES] / 255).astype(np.float32)
    (section,) = sections_of(result, "x")
    image, unit = section.image()
    assert (section.name, unit, image.dtype, image.max()) == ("one", (2.0, 2.0), np.uint8, 230)
    entry[keys.IMAGES][keys.HIRES] = entry[keys.IMAGES][keys.HIRES] * 255  # float, 0 to 255
    np.testing.assert_array_equal(sections_of(result, "x")[0].image()[0], image)


def test_what_is_no_result(result: AnnData, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x: it holds no spots in obsm\[.spatial.\]"):
        sections_of(AnnData(np.ones((2, 2))), "x")
    (tmp_path / "a.h5ad").write_text("no")
    with pytest.raises(DataError, match=r"a.h5ad: it cannot be read as .h5ad"):
        read_table(tmp_path / "a.h5ad")
    with pytest.raises(DataError, match="no such file"):
        read_table(tmp_path / "b.h5ad")
    result.obs[keys.LIBRARY_ID] = "three"
    with pytest.raises(DataError, match="how large a spot of section 'three' is"):
        sections_of(result, "x")
