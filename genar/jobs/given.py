"""What can be told of a prediction's options without a model, and without importing what takes time."""

from pathlib import Path

from genar.errors import ConfigError
from genar.slide.lattice import LATTICES

WORDS = ("auto", "none")  # of --tissue, which are no files, though there may be such


def check_pitch(spots: str | None, pitch: float | None) -> None:
    """Raise if a pitch is given for anything but a grid.

    Raises
    ------
    ConfigError
        If so.
    """
    if pitch is not None and spots != "grid":
        raise ConfigError("--pitch", "it goes with --spots grid alone", "give --spots grid, or leave --pitch out")


def check_where(
    spots: str | None, pitch: float | None, tissue: str, features: Path | None, encoder_weights: Path | None
) -> None:
    """Raise unless options that say where to predict, and from what, fit each other and name files that are there.

    Parameters
    ----------
    spots, pitch, tissue, features, encoder_weights
        As :func:`genar.predict` takes them.

    Raises
    ------
    ConfigError
        If they do not.
    """
    is_lattice = spots is None or spots in LATTICES
    check_pitch(spots, pitch)
    if not is_lattice and not Path(str(spots)).exists():
        remedy = f"give {', '.join(LATTICES)}, a measured section, or a CSV or GeoJSON of places"
        raise ConfigError("--spots", f"{spots!r} is no lattice, and there is no such file", remedy)
    if features is not None and (spots or pitch):
        raise ConfigError("--features", "their tiles say where the spots are", "leave --spots and --pitch out")
    if tissue != "auto" and not (is_lattice and features is None):
        raise ConfigError("--tissue", "the places of the spots are given", "leave it out")
    paths = {"--tissue": tissue if tissue not in WORDS else None, "--features": features}
    for option, path in (paths | {"--encoder-weights": encoder_weights}).items():
        if path is not None and not Path(path).exists():
            raise ConfigError(option, f"there is no file or folder {str(path)!r}", "check the path")
