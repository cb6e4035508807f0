"""The file opens in the notebooks of users: scanpy and squidpy here, and the newest scanpy on another Python."""

import os
import shutil
import subprocess
from pathlib import Path

import anndata as ad
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from platformdirs import user_cache_path

import genar
from genar import keys
from genar.write.anndata import result, write_h5ad

CODE = """
import sys, warnings
import matplotlib; matplotlib.use("Agg")
import numpy as np, scanpy as sc
from pathlib import Path
adata = sc.read_h5ad(sys.argv[1])
assert adata.X.dtype == np.int32 and adata.layers["expected"].dtype == np.float32
assert adata.obsm["spatial"].shape == (adata.n_obs, 2)
made = adata.uns["genar"]
print(adata.n_obs, adata.n_vars, int(adata.X.sum()), made["model"], list(made["warnings"]))
sc.pp.normalize_total(adata)
sc.pp.log1p(adata)
sc.pl.embedding(adata, basis="spatial", color=adata.var_names[0], show=False)
adata.obs["text"] = [f"spot {i}" for i in range(adata.n_obs)]  # strings as the newest pandas makes them
from genar.pl import gene
from genar.write.anndata import write_h5ad
gene(adata, "ERBB2").figure.savefig(sys.argv[2] + ".png")
write_h5ad(adata, Path(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def file(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result on the demo slide; the counts are drawn, since only the container is under test."""
    spots = genar.pp.spots(shared / "data/wsi/CMU-1-Small-Region.svs", "visium")
    rng = np.random.default_rng(0)
    counts = rng.poisson(4.0, size=(spots.n_obs, 5))
    panel = pd.DataFrame({"train_mean": 4.0, "heldout_pcc": [0.5, np.nan, 0.1, 0.2, 0.3], "group_5": range(5)})
    panel.index = ["ERBB2", "ACTB", "COL1A1", "KRT8", "IGKC"]
    provenance = {"model": "test", "warnings": ["first", "second"], "geometry": {"tile_um": 154.0}, "none": None}
    expected = counts.astype(np.float32)
    layers = {keys.EXPECTED: expected, keys.STD: expected + 1}
    adata = result(spots, panel=panel, counts=counts, layers=layers, provenance=provenance)
    path = tmp_path_factory.mktemp("scverse") / "slide.h5ad"
    write_h5ad(adata, path)
    return path


# squidpy's docstrings; scanpy and squidpy with the newest matplotlib; a name that older squidpys know alone
@pytest.mark.filterwarnings("ignore:'(n_jobs|show_progress_bar)' is not a valid key:SyntaxWarning")
@pytest.mark.filterwarnings("ignore:The set_bad function will be deprecated:PendingDeprecationWarning")
@pytest.mark.filterwarnings("ignore:Calling `spatial_neighbors` is deprecated:FutureWarning")
def test_scanpy_and_squidpy_draw_it(file: Path, tmp_path: Path) -> None:
    mpl.use("Agg")
    import scanpy as sc
    import squidpy as sq
    from matplotlib import pyplot as plt

    adata = sc.read_h5ad(file)
    sc.pp.normalize_total(adata)
    sc.pp.log1p(adata)
    sc.pl.embedding(adata, basis="spatial", color="ERBB2", show=False)
    sq.pl.spatial_scatter(adata, color="ERBB2", library_id=adata.obs[keys.LIBRARY_ID].cat.categories[0])
    drawn = plt.figure(plt.get_fignums()[-1])
    drawn.savefig(tmp_path / "squidpy.png")
    assert drawn.axes[0].images, "squidpy drew no tissue image under the spots"
    sq.gr.spatial_neighbors(adata)
    sq.gr.spatial_autocorr(adata, mode="moran", n_perms=None)
    assert np.isfinite(adata.uns["moranI"]["I"]).all()
    plt.close("all")


def newest_python() -> Path:
    """Return the interpreter of an environment on Python 3.13 with the newest scanpy and without torch."""
    environment = user_cache_path("genar") / "test-py313"
    python = environment / "bin" / "python"
    if not (environment / "complete").exists():
        base = shutil.which("python3.13")
        works = base and subprocess.run([base, "--version"], capture_output=True, check=False).returncode == 0
        pyenv = sorted(Path.home().glob(".pyenv/versions/3.13*/bin/python"))
        if not works and not pyenv:
            reason = "there is no Python 3.13 here"
            pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
        shutil.rmtree(environment, ignore_errors=True)
        subprocess.run([base if works else pyenv[-1], "-m", "venv", environment], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "scanpy"], check=True)
        (environment / "complete").touch()
    return python


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_a_missing_python_is_a_failure_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    for name, value in {"CI": ci, "PATH": "", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(outcome, match=r"there is no Python 3\.13 here"):
        newest_python()


@pytest.mark.slow
def test_the_newest_scanpy_opens_it_and_writes_it_back(file: Path, tmp_path: Path) -> None:
    back = tmp_path / "back.h5ad"
    # genar's light half runs there from its sources; it asks the metadata for its version alone
    (tmp_path / "genar-0.dist-info").mkdir()
    (tmp_path / "genar-0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: genar\nVersion: 0\n")
    sources = os.pathsep.join([str(Path(__file__).parents[1]), str(tmp_path)])
    command = [newest_python(), "-c", CODE, file, back]
    environment = os.environ | {"PYTHONPATH": sources, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    here = ad.read_h5ad(file)
    assert done.stdout.split()[:4] == [str(here.n_obs), "5", str(int(here.X.sum())), "test"]
    assert "['first', 'second']" in done.stdout
    again = ad.read_h5ad(back)
    assert again.obs["text"].tolist() == [f"spot {i}" for i in range(here.n_obs)]
    assert list(again.obs_names) == list(here.obs_names)
    assert list(again.var_names) == list(here.var_names)
    np.testing.assert_array_equal(again.layers[keys.EXPECTED], here.layers[keys.EXPECTED])
    np.testing.assert_array_equal(again.obsm[keys.SPATIAL], here.obsm[keys.SPATIAL])
    assert list(again.uns[keys.GENAR]["warnings"]) == ["first", "second"]
    assert again.uns[keys.SPATIAL].keys() == here.uns[keys.SPATIAL].keys()
