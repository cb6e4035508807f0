"""Errors that a user can act on: the command line prints them on one line and exits with status 2."""

OUT_OF_MEMORY = "out of memory; lower --batch-size, or use --device cpu or a larger machine"


class GenarError(Exception):
    """Something the user gave cannot be used.

    Parameters
    ----------
    what
        The thing at fault, usually a file: ``"slide.svs"``.
    why
        What is wrong with it: ``"it carries no resolution"``.
    remedy
        What to do about it: ``"give the resolution with --mpp, for example --mpp 0.5"``.
    """

    def __init__(self, what: object, why: str, remedy: str) -> None:
        super().__init__(f"{what}: {why}; {remedy}")
        self.what: str = str(what)
        self.why: str = why
        self.remedy: str = remedy

    def __reduce__(self) -> tuple[type["GenarError"], tuple[str, str, str]]:
        # an exception is pickled by its one message by default, which does not make it again
        return type(self), (self.what, self.why, self.remedy)


class SlideError(GenarError):
    """A slide cannot be opened, read or placed on a physical scale."""


class DataError(GenarError):
    """A measured section or a table that belongs to it cannot be used."""


class ModelError(GenarError):
    """A model, or an encoder's weights, cannot be loaded or do not fit the task."""


class OutputError(GenarError):
    """The result cannot be written where it was asked for."""


class ConfigError(GenarError):
    """A configuration or an option is not valid."""
