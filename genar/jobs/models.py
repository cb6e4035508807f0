"""Which models are here, and what is known of one without loading it."""

import csv
import json
import math
from dataclasses import dataclass
from pathlib import Path

from genar import keys
from genar.errors import ModelError
from genar.shelf import BUNDLED, CONFIG, FILES, GENES, bundled, source_of


@dataclass(frozen=True)
class Summary:
    """What is known of a model.

    Parameters
    ----------
    name
        What it is loaded by: a bundled name, ``owner/name@commit``, or a path.
    directory
        Where it lies.
    genes
        Number of genes.
    scales
        Groups at each scale.
    encoder
        The tile encoder.
    spots
        Geometry of the spots that it was trained on.
    sections
        Number of sections that it was trained on.
    pcc
        Mean over genes of their correlation on sections left out; NaN where it was not judged.
    reliable
        Number of reliable genes; None where it was not judged.
    bytes
        Size of its files.
    """

    name: str
    directory: Path
    genes: int
    scales: tuple[int, ...]
    encoder: str
    spots: str
    sections: int
    pcc: float
    reliable: int | None
    bytes: int


def here() -> list[Path]:
    """List the directories of bundled models and of those in the hub's cache."""
    from genar.hub import models

    return [BUNDLED / name for name in bundled()] + models()


def summary(directory: Path) -> Summary:
    """Tell what is known of a model; its weights are not read.

    Raises
    ------
    ModelError
        If what describes it cannot be read.
    """
    try:
        info = json.loads((directory / CONFIG).read_text(encoding="utf-8"))
        with (directory / GENES).open(encoding="utf-8", newline="") as file:
            genes = list(csv.DictReader(file, delimiter="\t"))
        known = [float(pcc) for gene in genes if (pcc := gene.get(keys.HELDOUT_PCC))]
        judged = bool(genes) and keys.RELIABLE in genes[0]
        own = source_of(directory) or (directory.name if directory.parent == BUNDLED else str(directory))
        return Summary(
            own, directory, len(genes), tuple(info["scales"]), info["encoder"],
            f"{info['lattice']}: {info['spot_um']:g} µm wide, {info['pitch_um']:g} µm apart", len(info["sections"]),
            math.fsum(known) / len(known) if known else math.nan,
            sum(gene[keys.RELIABLE] == "True" for gene in genes) if judged else None,
            sum((directory / file).stat().st_size for file in FILES if (directory / file).is_file()),
        )  # fmt: skip
    except (OSError, ValueError, LookupError, TypeError) as e:
        why = f"it cannot be read ({' '.join(str(e).split())[:150]})"
        raise ModelError(directory, why, "use a complete model directory") from e
