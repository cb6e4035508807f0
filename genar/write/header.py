"""What the Hugging Face hub reads of a model: the metadata above a model card."""

import re
from collections.abc import Sequence

from huggingface_hub import EvalResult, ModelCardData

TAGS = ["genar", "spatial-transcriptomics", "histology", "pathology", "biology"]
# the hub's names, by the first word of ours
METRIC_TYPES = {"PCC": "pearsonr", "Spearman": "spearmanr", "MSE": "mse", "MAE": "mae"}
LICENCES = {  # the hub's identifiers; a longer name stands before what it begins with
    r"CC[ -]BY[ -]NC[ -]ND[ -]4\.0": "cc-by-nc-nd-4.0", r"CC[ -]BY[ -]NC[ -]SA[ -]4\.0": "cc-by-nc-sa-4.0",
    r"CC[ -]BY[ -]NC[ -]4\.0": "cc-by-nc-4.0", r"CC[ -]BY[ -]SA[ -]4\.0": "cc-by-sa-4.0",
    r"CC[ -]BY[ -]4\.0": "cc-by-4.0", r"CC0": "cc0-1.0", r"Apache[ -](License )?2\.0": "apache-2.0", r"\bMIT\b": "mit",
    r"BSD[ -]3": "bsd-3-clause", r"GPL[ -v]*3": "gpl-3.0",
}  # fmt: skip
_TABLE_ROW = re.compile(r"^\|(.+)\|\s*$", re.MULTILINE)


def with_header(card: str, name: str, *, licence: str | None = None, datasets: Sequence[str] = ()) -> str:
    """Put the hub's metadata above a model card; an older header is replaced.

    Parameters
    ----------
    card
        The card as genar writes it.
    name
        The model's name.
    licence
        The hub's identifier of the licence; by default the one that the card names first, ``"other"`` where genar does
        not know it.
    datasets
        Identifiers of data sets at the hub.

    Returns
    -------
    Markdown with a YAML header: library, licence, tags, data sets, and the mean held-out metrics that the card tells.
    """
    body = re.sub(r"\A---\n.*?\n---\n+", "", card, flags=re.DOTALL)
    figures = heldout(body)
    data = ModelCardData(
        library_name="genar",
        license=licence or licence_of(section(body, "Licence")),
        tags=TAGS,
        datasets=list(datasets) or None,
        metrics=sorted({_type(metric) for metric in figures}) or None,
        model_name=name if figures else None,
        eval_results=[_result(metric, value, body) for metric, value in figures.items()] or None,
    )
    return f"---\n{data.to_yaml()}\n---\n\n{body}"


def section(card: str, title: str) -> str:
    """Return the text below a heading of a card, empty where there is none."""
    found = re.search(rf"^## {re.escape(title)}\n+(.*?)(?=^## |\Z)", card, re.DOTALL | re.MULTILINE)
    return found[1].strip() if found else ""


def licence_of(text: str) -> str:
    """Return the hub's identifier of the licence that a text names first; ``"unknown"`` where none is stated."""
    places = [(found.start(), name) for pattern, name in LICENCES.items() if (found := re.search(pattern, text))]
    if places:
        return min(places, key=lambda place: place[0])[1]
    return "unknown" if not text or text.startswith("Not stated") else "other"


def heldout(card: str) -> dict[str, float]:
    """Read genar's mean held-out metrics, by name, from a card's table; empty where it has none."""
    rows = [
        [cell.strip() for cell in line.split("|")] for line in _TABLE_ROW.findall(section(card, "Held-out accuracy"))
    ]
    if not rows or rows[0][:2] != ["section", "method"]:
        return {}
    own = [row for row in rows[2:] if row[1] == "GenAR"]  # of several sections the last row is their mean
    return {name: float(value) for name, value in zip(rows[0][2:], own[-1][2:], strict=True)} if own else {}


def _type(metric: str) -> str:
    """Return the hub's name for a kind of metric."""
    return METRIC_TYPES.get(metric.partition("-")[0], metric)


def _result(metric: str, value: float, card: str) -> EvalResult:
    """Return a metric as the hub lists it."""
    source = section(card, "Data").partition("\n\n")[0]
    return EvalResult(
        task_type="spatial-gene-expression-prediction",
        dataset_type="spatial-transcriptomics",
        dataset_name=f"sections left out: {source}"[:200],
        metric_type=_type(metric),
        metric_name=f"{metric}, mean over sections left out",
        metric_value=value,
    )
