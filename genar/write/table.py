"""A result as one wide table, a row a spot: CSV or Parquet."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from anndata import AnnData

from genar import keys
from genar.errors import DataError
from genar.genes.choice import dense, values
from genar.write.sections import Section

BARCODE = "barcode"
X_PX, Y_PX, X_UM, Y_UM = "x_px", "y_px", "x_um", "y_um"
CELLS = 2**22  # numbers in the part of the table that is in memory at once


def write_csv(
    adata: AnnData, sections: Sequence[Section], path: Path, *, genes: Sequence[str], layer: str | None = None
) -> None:
    """Write a CSV: ``barcode``, the place of the spot, the columns of ``obs``, and a column a gene.

    Parameters
    ----------
    adata
        The result.
    sections
        Its sections.
    path
        The file to write.
    genes
        The genes, in their order.
    layer
        Whose values; by default ``X``.

    Raises
    ------
    DataError
        If a gene or a column of ``obs`` has another column's name.
    ConfigError
        If there is no such layer.
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        for number, part in enumerate(_parts(adata, sections, genes, layer)):
            part.to_csv(file, header=number == 0, lineterminator="\n")


def write_parquet(
    adata: AnnData, sections: Sequence[Section], path: Path, *, genes: Sequence[str], layer: str | None = None
) -> None:
    """Write what :func:`write_csv` does as Parquet, every number in the type that it has in the AnnData."""
    parts = _parts(adata, sections, genes, layer)
    first = next(parts)
    schema = _schema(first, _spots(adata, sections))
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for part in chain([first], parts):
            writer.write_table(pa.Table.from_pandas(part, schema=schema, preserve_index=True))


def _schema(first: pd.DataFrame, spots: pd.DataFrame) -> pa.Schema:
    """Return the types of the first part's columns or, as that may be empty where others are not, of all spots'."""
    try:
        of_spots = pa.Table.from_pandas(spots, preserve_index=True).schema  # whose error names the column
    except pa.ArrowException as e:
        why = f"a column of obs is of no type that Parquet has ({' '.join(str(e).split())[:160]})"
        raise DataError("obs", why, "make its values of one type") from e
    schema = pa.Schema.from_pandas(first, preserve_index=True)
    for field in of_spots:
        schema = schema.set(schema.get_field_index(field.name), field)
    return schema


def _parts(
    adata: AnnData, sections: Sequence[Section], genes: Sequence[str], layer: str | None
) -> Iterator[pd.DataFrame]:
    """Yield the table in parts, at least one."""
    spots, matrix = _spots(adata, sections), values(adata, genes, layer)
    names = pd.Index([BARCODE, *spots.columns, *genes])
    if not names.is_unique:
        twice = str(names[names.duplicated()][0])
        raise DataError(twice, "two columns of the table would have this name", "rename it in obs or in var")
    step = max(1, CELLS // len(names))
    for start in range(0, adata.n_obs, step):
        rows = slice(start, start + step)
        found = pd.DataFrame(dense(matrix[rows]), columns=list(genes), index=spots.index[rows])
        yield pd.concat([spots.iloc[rows], found], axis=1)


def _spots(adata: AnnData, sections: Sequence[Section]) -> pd.DataFrame:
    """Return what is known of every spot beside its genes, by barcode."""
    xy, um = np.empty((adata.n_obs, 2)), np.full((adata.n_obs, 2), np.nan)
    for section in sections:
        xy[section.rows] = section.centres
        um[section.rows] = section.centres * float(section.metadata.get(keys.MPP, np.nan))
    places = {X_PX: xy[:, 0], Y_PX: xy[:, 1], X_UM: um[:, 0], Y_UM: um[:, 1]}
    index = pd.Index(adata.obs_names.astype(str), name=BARCODE)
    known: pd.DataFrame = adata.obs.set_axis(index, axis=0)
    return pd.concat([pd.DataFrame(places, index=index), known], axis=1)
