"""Writers of other formats' layouts, from a measured section: what the readers are tested on."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import tifffile
from anndata import AnnData
from PIL import Image
from scipy.io import mmwrite
from scipy.sparse import csc_matrix, csr_matrix

import genar
from genar import keys

HEADER = ["barcode", "in_tissue", "array_row", "array_col", "pxl_row_in_fullres", "pxl_col_in_fullres"]


def small_section(shared: Path, name: str = "C2", spots: int = 30, genes: int = 40) -> tuple[AnnData, np.ndarray]:
    """Cut a corner out of a her2st section: few spots, its strongest genes, and the image around them.

    Returns
    -------
    The section, with centres in pixels of the cut image, and that image, RGB uint8.
    """
    root = shared / "data/her2st"
    section = genar.read.st(root, name, mpp=0.687)
    xy = section.obsm[keys.SPATIAL]
    near = np.sort(np.argsort(np.linalg.norm(xy - np.median(xy, axis=0), axis=1), kind="stable")[:spots])
    strong = np.sort(np.argsort(-np.asarray(section.X.sum(axis=0)).ravel(), kind="stable")[:genes])
    section = section[near, strong].copy()
    low = np.floor(section.obsm[keys.SPATIAL].min(axis=0)).astype(int) - 160
    high = np.ceil(section.obsm[keys.SPATIAL].max(axis=0)).astype(int) + 160
    section.obsm[keys.SPATIAL] -= low
    with genar.read.slide(next(root.glob(f"ST-imgs/*/{name}/*")), mpp=0.687) as slide:
        return section, slide.read(*low.tolist(), *(high - low).tolist())


def on_visium(section: AnnData, pitch_px: float = 100.0) -> tuple[AnnData, int]:
    """Lay a section's spots on a Visium array, 100 µm apart, and return it with the side of an image that holds it."""
    side = int(np.ceil(section.n_obs**0.5))
    row, half = np.divmod(np.arange(section.n_obs), side)
    placed = section.copy()
    placed.obs[keys.ARRAY_ROW], placed.obs[keys.ARRAY_COL] = row, 2 * half + row % 2
    columns = placed.obs[[keys.ARRAY_COL, keys.ARRAY_ROW]].to_numpy(np.float64)
    placed.obsm[keys.SPATIAL] = np.round(pitch_px * (1 + columns * [0.5, 3**0.5 / 2]), 3)
    placed.obs_names = [f"ACGT{i:04d}-1" for i in range(placed.n_obs)]
    return placed, int(pitch_px * (side + 2))


def write_image(path: Path, image: np.ndarray, mpp: float | None = None) -> Path:
    """Write a tiled TIFF, with its resolution where one is given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unit = {} if mpp is None else {"resolution": (1e4 / mpp, 1e4 / mpp), "resolutionunit": "CENTIMETER"}
    tifffile.imwrite(path, image, tile=(256, 256), photometric="rgb", compression="jpeg", metadata=None, **unit)
    return path


def write_matrix_h5(path: Path, section: AnnData, further: Sequence[str] = ()) -> Path:
    """Write counts as Cell Ranger 3 and later do, genes first; ``further`` are antibodies, one count a spot."""
    path.parent.mkdir(parents=True, exist_ok=True)
    matrix = csc_matrix(np.vstack([section.X.toarray().T, np.ones((len(further), section.n_obs), dtype=np.int32)]))
    with h5py.File(path, "w") as file:
        group = file.create_group("matrix")
        group["barcodes"] = section.obs_names.to_numpy().astype("S")
        group["data"], group["indices"] = matrix.data.astype(np.int32), matrix.indices.astype(np.int64)
        group["indptr"], group["shape"] = matrix.indptr.astype(np.int64), np.array(matrix.shape, dtype=np.int32)
        features = group.create_group("features")
        features["id"] = np.array([*gene_ids(section), *further], dtype="S")
        features["name"] = np.array([*section.var_names, *further], dtype="S")
        kinds = ["Gene Expression"] * section.n_vars + ["Antibody Capture"] * len(further)
        features["feature_type"], features["genome"] = (
            np.array(kinds, dtype="S"),
            np.array(["GRCh38"] * len(kinds), "S"),
        )
        features["_all_tag_keys"] = np.array(["genome"], dtype="S")
    return path


def write_matrix_mtx(folder: Path, section: AnnData) -> Path:
    """Write counts as a folder of matrix, features and barcodes."""
    folder.mkdir(parents=True)
    with gzip.open(folder / "matrix.mtx.gz", "wb") as file:
        mmwrite(file, csc_matrix(section.X.T), field="integer")
    features = pd.DataFrame({"id": gene_ids(section), "name": section.var_names, "type": "Gene Expression"})
    features.to_csv(folder / "features.tsv.gz", sep="\t", header=False, index=False)
    pd.Series(section.obs_names).to_csv(folder / "barcodes.tsv.gz", header=False, index=False)
    return folder


def gene_ids(section: AnnData) -> list[str]:
    """Return Ensembl ids: the section's, or made ones."""
    if keys.GENE_IDS in section.var:
        return list(section.var[keys.GENE_IDS])
    return [f"ENSG{number:011d}" for number in range(section.n_vars)]


def positions(section: AnnData, outside: int = 3) -> pd.DataFrame:
    """Return Space Ranger's table of positions, with some spots outside of tissue."""
    xy = section.obsm[keys.SPATIAL]
    table = pd.DataFrame(
        {
            "barcode": section.obs_names,
            "in_tissue": 1,
            "array_row": section.obs[keys.ARRAY_ROW].to_numpy(),
            "array_col": section.obs[keys.ARRAY_COL].to_numpy(),
            "pxl_row_in_fullres": xy[:, 1],
            "pxl_col_in_fullres": xy[:, 0],
        }
    )
    glass = table.iloc[:outside].assign(in_tissue=0, array_row=70, barcode=[f"GGGG{i:04d}-1" for i in range(outside)])
    return pd.concat([glass, table], ignore_index=True)[HEADER]


def write_visium_v1(section: AnnData, folder: Path, image: np.ndarray | None) -> Path:
    """Write Space Ranger 1's ``outs``: positions without a header, integer pixels, counts as .mtx.

    Returns
    -------
    ``folder``, which holds ``outs`` and, if there is one, the image.
    """
    (folder / "outs/spatial").mkdir(parents=True)
    table = positions(section).round().astype(dict.fromkeys(HEADER[4:], int))
    table.to_csv(folder / "outs/spatial/tissue_positions_list.csv", header=False, index=False)
    write_matrix_mtx(folder / "outs/filtered_feature_bc_matrix", section)
    return _with_image(section, folder, image)


def write_visium_v2(section: AnnData, folder: Path, image: np.ndarray | None) -> Path:
    """Write Space Ranger 2's ``outs``: positions with a header, counts as HDF5 with an antibody beside the genes."""
    (folder / "outs/spatial").mkdir(parents=True)
    positions(section).to_csv(folder / "outs/spatial/tissue_positions.csv", index=False)
    write_matrix_h5(folder / "outs/filtered_feature_bc_matrix.h5", section, further=["CD3"])
    return _with_image(section, folder, image)


def write_visium_hd(
    section: AnnData, folder: Path, image: np.ndarray | None, mpp: float = 0.687, bins: Sequence[int] = (8, 16)
) -> Path:
    """Write Visium HD's ``outs``, the same counts for every size of bins."""
    for bin_um in bins:
        square = folder / f"outs/binned_outputs/square_{bin_um:03d}um"
        (square / "spatial").mkdir(parents=True)
        positions(section).to_parquet(square / "spatial/tissue_positions.parquet", index=False)
        scales = {"spot_diameter_fullres": bin_um / mpp, "bin_size_um": float(bin_um), "microns_per_pixel": mpp}
        (square / "spatial/scalefactors_json.json").write_text(json.dumps(scales))
        write_matrix_h5(square / "filtered_feature_bc_matrix.h5", section)
    return _with_image(section, folder, image)


def _with_image(section: AnnData, folder: Path, image: np.ndarray | None) -> Path:
    """Put the image beside ``outs``, and a small one where Space Ranger puts it."""
    if image is not None:
        write_image(folder / "slide.tif", image)
    (folder / "outs/spatial").mkdir(exist_ok=True)
    Image.new("RGB", (60, 60)).save(folder / "outs/spatial/tissue_hires_image.png")
    return folder


def write_st(section: AnnData, root: Path, image: np.ndarray | None, name: str, patient: str = "C") -> Path:
    """Add a section to a root laid out as her2st.

    Returns
    -------
    The section's counts.
    """
    for part in ("ST-cnts", "ST-spotfiles", f"ST-imgs/{patient}/{name}"):
        (root / part).mkdir(parents=True, exist_ok=True)
    row, col = section.obs[keys.ARRAY_ROW].to_numpy(), section.obs[keys.ARRAY_COL].to_numpy()
    spots = [f"{x}x{y}" for x, y in zip(col, row, strict=True)]
    path = root / "ST-cnts" / f"{name}.tsv.gz"
    pd.DataFrame(section.X.toarray(), index=spots, columns=section.var_names).to_csv(path, sep="\t")
    x, y = section.obsm[keys.SPATIAL].T
    places = pd.DataFrame({"x": col, "y": row, "pixel_x": x, "pixel_y": y, "selected": 1})
    places.to_csv(root / "ST-spotfiles" / f"{name}_selection.tsv", sep="\t", index=False)
    if image is not None:
        Image.fromarray(image).save(root / "ST-imgs" / patient / name / "slide.jpg", quality=95)
    return path


def write_hest(
    section: AnnData, root: Path, image: np.ndarray, name: str, *, wsi: bool = True, patches: int = 0, **known: object
) -> Path:
    """Add a section to a HEST root; ``patches`` of its spots get one, ``known`` goes into the metadata.

    Returns
    -------
    The section's ``.h5ad``.
    """
    for part in ("st", "metadata", "wsis", "patches"):
        (root / part).mkdir(parents=True, exist_ok=True)
    mpp, (height, width) = 0.687, image.shape[:2]
    small = Image.fromarray(image)
    small.thumbnail((1000, 1000))
    table = AnnData(csr_matrix(section.X, dtype=np.float32), obs=section.obs[[]].copy(), var=section.var.copy())
    table.obs[[keys.IN_TISSUE, keys.ARRAY_ROW, keys.ARRAY_COL]] = section.obs[
        [keys.IN_TISSUE, keys.ARRAY_ROW, keys.ARRAY_COL]
    ]
    table.obsm[keys.SPATIAL] = section.obsm[keys.SPATIAL].copy()
    scale = small.width / width
    scales = {"tissue_downscaled_fullres_scalef": scale, "spot_diameter_fullres": 100 / mpp}
    table.uns[keys.SPATIAL] = {"ST": {"images": {"downscaled_fullres": np.asarray(small)}, "scalefactors": scales}}
    path = root / "st" / f"{name}.h5ad"
    table.write_h5ad(path)
    metadata = {
        "id": name, "patient": "Patient 7", "oncotree_code": "IDC", "st_technology": "Spatial Transcriptomics",
        "pixel_size_um_estimated": mpp, "pixel_size_um_embedded": None, "spot_diameter": 100.0,
        "inter_spot_dist": 200.0, "fullres_px_width": width, "fullres_px_height": height, **known,
    }  # fmt: skip
    (root / "metadata" / f"{name}.json").write_text(json.dumps(metadata))
    if wsi:
        write_image(root / "wsis" / f"{name}.tif", image)
    if patches:
        _write_patches(root / "patches" / f"{name}.h5", section[:patches], image, mpp)
    return path


def _write_patches(path: Path, section: AnnData, image: np.ndarray, mpp: float) -> None:
    """Write 224 px tiles of 0.5 µm/px around spots, with their top left corners in the slide's pixels."""
    side = 112 / mpp  # µm to pixels
    corners = (section.obsm[keys.SPATIAL] - side // 2).astype(int)
    picture = Image.fromarray(image)
    tiles = [np.asarray(picture.resize((224, 224), box=(x, y, x + side, y + side))) for x, y in corners]
    with h5py.File(path, "w") as file:
        file["img"], file["coords"] = np.stack(tiles), corners
        file["barcode"] = section.obs_names.to_numpy().astype("S")[:, None]


def write_h5ad(section: AnnData, path: Path, image: np.ndarray) -> Path:
    """Write an .h5ad of log-normalised values with the counts in a layer, and its image beside it as .tif."""
    path.parent.mkdir(parents=True, exist_ok=True)
    counts = section.X.toarray().astype(np.float32)
    table = AnnData(
        np.log1p(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1) * 1e4), section.obs[[]], section.var.copy()
    )
    table.layers["counts"] = csr_matrix(counts)
    table.obsm[keys.SPATIAL] = section.obsm[keys.SPATIAL].copy()
    table.write_h5ad(path)
    write_image(path.with_suffix(".tif"), image)
    return path


def write_spatialdata(section: AnnData, path: Path, image: np.ndarray, *, scale: float = 0.5, v2: bool = False) -> Path:
    """Write a SpatialData store whose shapes lie in other coordinates than its image's pixels, ``scale`` to 1.

    ``v2`` writes zarr of version 2, as spatialdata did before 0.6.
    """
    import spatialdata as sd
    from spatialdata.models import Image2DModel, ShapesModel, TableModel
    from spatialdata.transformations import Identity, Scale

    to_global = {"global": Scale([scale, scale], axes=("x", "y"))}
    picture = Image2DModel.parse(
        np.moveaxis(image, 2, 0), dims=("c", "y", "x"), scale_factors=[2], transformations=to_global
    )
    order = np.arange(section.n_obs)[::-1]  # the shapes need not lie as the table's rows do
    centres = section.obsm[keys.SPATIAL][order] * scale
    shapes = ShapesModel.parse(
        centres, geometry=0, radius=50 / 0.687 * scale, index=order, transformations={"global": Identity()}
    )
    table = AnnData(csr_matrix(section.X, dtype=np.float32), section.obs[[]].copy(), section.var.copy())
    table.obs["region"] = pd.Categorical(["spots"] * section.n_obs)
    table.obs["spot"] = np.arange(section.n_obs)
    table = TableModel.parse(table, region="spots", region_key="region", instance_key="spot")
    store = sd.SpatialData(images={"he": picture}, shapes={"spots": shapes}, tables={"table": table})
    formats = None
    if v2:
        from spatialdata._io.format import SpatialDataContainerFormatV01

        formats = [SpatialDataContainerFormatV01()]
    store.write(path, sdata_formats=formats)
    return path
