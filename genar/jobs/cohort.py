"""Many slides: each on its own, here or on a cluster, and a summary of what came of them."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path

from genar.device import device_of
from genar.encoders.registry import weights_sha256
from genar.errors import GenarError
from genar.jobs.existing import present
from genar.jobs.options import Options
from genar.jobs.predict import check
from genar.jobs.predict_file import model_of
from genar.jobs.slides import Task
from genar.jobs.summary import Summary
from genar.jobs.work import Outcome, work
from genar.write.report.index import is_current

Say = Callable[[int, Outcome], None]


def predict_all(
    tasks: Sequence[Task],
    output: Path,
    options: Options,
    *,
    overwrite: bool = False,
    cluster: str | None = None,
    say: Say = lambda *_: None,
) -> list[Outcome]:
    """Predict slides; one that fails does not stop the rest. Keeps ``summary.csv`` in the output folder current.

    Results of the same request that are there already are left as they are.

    Parameters
    ----------
    tasks
        The slides.
    output
        Folder to write to.
    options
        What to predict, and how.
    overwrite
        Replace files that exist.
    cluster
        Where to compute, as :func:`genar.jobs.cluster.on_cluster` reads it; by default here, slide after slide.
    say
        Is told of each slide as it is finished: how many are, and what came of it.

    Returns
    -------
    What came of each slide, in the order of ``tasks``.

    Raises
    ------
    ConfigError, ModelError
        If the options are not valid, whatever the slide.
    OutputError
        If the summary cannot be written.
    """
    model = model_of(options.model)
    check(options, model)
    if cluster is None:  # of a cluster's machines this one cannot tell
        device_of(options.device)
        if options.features is None:
            weights_sha256(model.info.encoder, options.encoder_weights)
    summary = Summary(output, [task.name for task in tasks])
    found: dict[str, Outcome] = {}
    try:
        with closing(_outcomes(tasks, output, options, overwrite, cluster)) as outcomes:
            for number, outcome in enumerate(outcomes, start=1):
                found[outcome.task.name] = outcome
                summary.add(outcome)
                say(number, outcome)
    finally:
        if found:
            summary.write()
    return [found[task.name] for task in tasks]


def _outcomes(
    tasks: Sequence[Task], output: Path, options: Options, overwrite: bool, cluster: str | None
) -> Generator[Outcome]:
    """Predict the slides one after another, or the missing ones on a cluster."""
    if cluster is None:
        for task in tasks:
            yield work(task, output, options, overwrite=overwrite, progress=True)
        return
    from genar.jobs.cluster import on_cluster

    missing = []
    for task in tasks:  # here, so that no cluster is started where nothing is missing
        there = None if overwrite else _there(task, output, options)
        if there is None:
            missing.append(task)
        else:
            yield there
    if missing:
        yield from on_cluster(cluster, missing, output, options, overwrite=overwrite)


def _there(task: Task, output: Path, options: Options) -> Outcome | None:
    """Tell whether a slide's result is there already; what stands in its way is found by who is to make it."""
    table, own = output / f"{task.name}.h5ad", options.of(task)
    if not table.with_suffix(".png").exists() or (options.report and not is_current(table.with_suffix(".html"), table)):
        return None
    try:
        found = present(table, task.slide, own.request(task.slide, model_of(own.model).sha256))
    except (GenarError, OSError):
        return None
    return None if found is None else Outcome(task, "present", spots=found.spots, unlike=found.unlike, output=table)
