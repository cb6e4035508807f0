"""The model card that every model directory carries."""

from collections.abc import Sequence
from typing import ClassVar

import pandas as pd
from pydantic import BaseModel, ConfigDict

from genar.model.config import ModelConfig
from genar.store import ModelInfo


class CardConfig(BaseModel):
    """What the model card says beyond what is computed.

    Parameters
    ----------
    data
        The training data and their source.
    licence
        Licence of the weights, and of the data.
    use
        What the model is for.
    limits
        What it is not for.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    data: str = "Not stated."
    licence: str = "Not stated: ask whoever trained the model."
    use: str = "Research."
    limits: str = "diagnosis or any decision on a patient."


TEMPLATE = """# {name}

GenAR model for predicting spatial gene expression from H&E, written by genar {version}.

## Use

{use}

**Not for:** {limits}

## Data

{data}

Trained on sections {sections}{stopped}. {split}

## Licence

{licence}

## Model

| | |
|---|---|
| genes | {n_genes}, at scales {scales} |
| count tokens | 0 to {max_count} |
| tile | {tile_um:g} µm, encoder {encoder} |
| sees of a spot | {seen} |
| spots | {lattice}: {spot_um:g} µm wide, {pitch_um:g} µm apart |
| decoder | {decoder}, width {width}, {layers} layers{genes}, {heads} heads{linear} |
| depth | {depth} |

## Held-out accuracy

{accuracy}
"""

ACCURACY = """Each section was predicted, free-running, by a model that was trained without it. Figures are on
log2(count + 1), of which the expected value is predicted, not rounded. PCC-k is the mean correlation over spots of the
k genes that correlate best on that test section, which flatters; PCC and Spearman are means over all genes, of which an
undefined one counts as 0; MSE is the mean squared error. ridge (all features or some principal components, a penalty a
gene, chosen on left-out training sections) and gene mean learnt from the same spots, features and genes.

{table}"""

SHARED = """**Optimistic**: a held-out section is not a held-out patient here, as sections of patient {patients} were
trained on, too. Expect less on a new patient."""

UNKNOWN = """**Perhaps optimistic**: the patients of sections {sections} were not known, and each counts as one of its
own. If sections of one patient were on two sides, expect less on a new patient."""


def model_card(
    info: ModelInfo, card: CardConfig, heldout: pd.DataFrame, shared: Sequence[str] = (), unknown: Sequence[str] = ()
) -> str:
    """Write a model card.

    Parameters
    ----------
    info
        The model.
    card
        What its maker says of it.
    heldout
        Metrics of held-out sections: columns ``section``, ``method`` and one a metric. May be empty.
    shared
        Patients whose sections lay on two sides of the split.
    unknown
        Sections whose patient was not known.

    Returns
    -------
    Markdown.
    """
    network, size, split = info.network, info.library_size, info.split
    depth = "not known" if size is None else f"median library size of the training sections {size:,.0f}"
    if network.library_size:
        depth += "; another may be asked for with --depth"
    accuracy = "Not measured."
    if len(heldout):
        accuracy = ACCURACY.format(table=markdown(heldout))
        if shared:
            accuracy = f"{SHARED.format(patients=', '.join(shared))}\n\n{accuracy}"
        if unknown:
            accuracy = f"{UNKNOWN.format(sections=', '.join(unknown))}\n\n{accuracy}"
    return TEMPLATE.format(
        **card.model_dump(),
        **info.model_dump(include={"name", "max_count", "tile_um", "encoder", "lattice", "spot_um", "pitch_um"}),
        version=info.genar_version,
        sections=", ".join(info.sections),
        stopped=f", stopped by {', '.join(split.validation)}" if split and split.validation else "",
        split=f"SHA-256 of the split: {split.sha256}." if split else "",
        n_genes=info.scales[-1],
        scales=", ".join(map(str, info.scales)),
        decoder=network.decoder,
        width=network.width,
        layers=network.layers,
        genes=f" ({network.passed_by_genes} for the genes)" if network.decoder == "block_causal" else "",
        heads=network.heads,
        seen=_seen(network),
        linear=", on top of a linear path" if network.linear else "",
        depth=depth,
        accuracy=accuracy,
    )


def _seen(network: ModelConfig) -> str:
    """Say of which tiles a model takes features."""
    if not network.neighbours:
        return "its tile"
    how = " the mean of" if network.context else ", by attention,"
    return f"its tile and{how} those of its {network.neighbours} nearest spots"


def markdown(heldout: pd.DataFrame) -> str:
    """Lay metrics out as a Markdown table, with the mean over sections of each method at the end."""
    mean = means(heldout)
    mean.insert(0, "section", "**mean**")
    rows = pd.concat([heldout, mean]) if heldout["section"].nunique() > 1 else heldout
    head = list(rows.columns)
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(v if isinstance(v, str) else f"{v:.3f}" for v in row) + " |" for row in rows.to_numpy()]
    return "\n".join(lines)


def means(heldout: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of each metric over sections, a row a method."""
    return heldout.drop(columns="section").groupby("method", sort=False, as_index=False).mean()
