"""Evaluation: a model and measured sections in, what it is worth on those that it never saw out."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from genar.baselines import BASELINES
from genar.device import device_of
from genar.errors import ConfigError
from genar.jobs.evaluation import Evaluation, write
from genar.jobs.judge import compared
from genar.jobs.unseen import all_known, embed, gather
from genar.store import Model, load

logger: logging.Logger = logging.getLogger("genar")

DRAWS = 1000  # of the bootstrap over spots


def evaluate(
    model: str | Model,
    data: Path,
    output: Path | None = None,
    *,
    sections: Sequence[str] | None = None,
    mpp: float | None = None,
    seen: bool = False,
    baselines: Sequence[str] = ("gene mean", "ridge"),
    encoder_weights: Path | None = None,
    cache: Path | None = None,
    device: str = "auto",
    seed: int = 0,
    overwrite: bool = False,
) -> Evaluation:
    """Judge a model on measured sections that it never saw.

    The model tells which sections it learnt from, by their content. Where all of these are among the data, baselines
    learn from them too and are judged beside it.

    Parameters
    ----------
    model
        A loaded model, a bundled model's name, or a model directory.
    data
        Where the sections lie; see :mod:`genar.read.source`.
    output
        Folder for ``scores.csv``, ``genes.csv``, ``evaluation.json`` and pictures; None to write nothing.
    sections
        Names of the sections to judge on; by default all that the model did not learn from.
    mpp
        Resolution of the images in µm per pixel, where the data do not tell.
    seen
        Judge on sections that the model learnt from as well. The figures then say how well it remembers.
    baselines
        Names of :data:`genar.baselines.BASELINES`.
    encoder_weights, cache
        As of :func:`genar.predict`.
    device
        Where to compute.
    seed
        Of the baselines that draw.
    overwrite
        Replace files of an earlier evaluation.

    Raises
    ------
    ModelError
        If the model learnt from all the sections, unless ``seen``.
    DataError, SlideError
        If a section cannot be used.
    ConfigError
        If there is no such baseline or section.
    OutputError
        If the files exist, or cannot be written.
    """
    for name in baselines:
        if name not in BASELINES:
            raise ConfigError("--baselines", f"{name!r} is not known", f"give some of: {', '.join(BASELINES)}, or none")
    loaded = model if isinstance(model, Model) else load(model)
    where = device_of(device)
    found = gather(loaded, data, sections, mpp, seen=seen)
    for line in found.warnings:
        logger.warning("%s", line)
    known = list(found.known.values()) if all_known(loaded, found) else []
    if baselines and not known:
        why = "the sections that the model learnt from are not among the data, so that no baseline can learn from them"
        found.warnings.append(why)
        logger.warning("%s", why)
    embed([*found.unseen.values(), *(known if baselines else [])], loaded, encoder_weights, cache, device)
    result, predictions = compared(loaded, known, found.unseen, baselines, seed=seed, draws=DRAWS, device=where)
    result = replace(result, warnings=tuple(found.warnings))
    if output is not None:
        write(result, found.unseen, predictions, loaded.panel.index, output, overwrite=overwrite)
    return result
