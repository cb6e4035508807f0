"""Import: a checkpoint of the published code in, a model directory out."""

import logging
from pathlib import Path
from typing import Literal

from genar import keys
from genar.encoders.registry import is_computable
from genar.errors import ConfigError, DataError
from genar.published import import_checkpoint
from genar.slide.lattice import lattice
from genar.store import check_free, save
from genar.units import LARGEST_TILE_UM

logger: logging.Logger = logging.getLogger("genar")

CARD = """# {name}

Imported by genar {version} from a checkpoint of the published GenAR code (Ouyang et al., Medical Image Analysis 2026,
github.com/oyjr/genar), `{checkpoint}`. genar's `cumulative` decoder computes what that code computes.

- {n_genes} genes, counts up to {max_count}, scales {scales}.
- Encoder `{encoder}`, tiles of {tile_um:g} µm. The published code crops 224 px whatever the resolution; this size is
  what the import was told.
- Positions are scaled to [0, 1] over each slide: expect less on a slide whose tissue has another outline.
{units}
Training data, licence and accuracy: as its authors say. Research use only, not for diagnosis.
"""
CONTINUOUS = """\
- It is a continuous control, trained on log1p of counts scaled to one library size (10,000 as published): its counts
  are parts of that.
"""


def import_to_directory(
    checkpoint: Path, genes: Path, output: Path, *, spots: Literal["visium", "st"], tile_um: float
) -> Path:
    """Convert a checkpoint of the published code into a model directory.

    Parameters
    ----------
    checkpoint
        A Lightning ``.ckpt`` of github.com/oyjr/genar.
    genes
        Text file of gene symbols, one a line, in the order that the model was trained with.
    output
        Model directory to write.
    spots
        Geometry that it was trained on.
    tile_um
        Side of its training tiles in µm.

    Returns
    -------
    ``output``.

    Raises
    ------
    ModelError
        If the checkpoint is not one of the published code, or a tensor of it would not be used.
    DataError
        If the gene list cannot be read.
    OutputError
        If ``output`` cannot be written.
    """
    if not 0 < tile_um <= LARGEST_TILE_UM:
        raise ConfigError("--tile-um", f"{tile_um:g} µm is out of range", f"give up to {LARGEST_TILE_UM:g} µm")
    check_free(output)
    try:
        symbols = genes.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as e:
        raise DataError(genes, f"it cannot be read ({e})", "give a text file with a gene symbol a line") from e
    model = import_checkpoint(checkpoint, symbols, name=output.name, geometry=lattice(spots), tile_um=tile_um)
    info = model.info
    card = CARD.format(
        name=info.name, version=info.genar_version, checkpoint=checkpoint.name, n_genes=info.scales[-1],
        units=CONTINUOUS if info.network.distribution in ("mse", "gaussian_nll") else "",
        max_count=info.max_count, scales=", ".join(map(str, info.scales)), encoder=info.encoder, tile_um=tile_um,
    )  # fmt: skip
    if not is_computable(info.encoder):
        logger.warning(
            "genar cannot compute %s features itself: give them to genar.tl.predict in obsm[%r]",
            info.encoder, keys.features(info.encoder),
        )  # fmt: skip
    save(model, output, card)
    return output
