"""The errors that the package raises on purpose; catch `GlaceError` for all of them."""

from collections.abc import Callable

Spelling = Callable[..., str]
"""Spells an option for the reader of a message: `spell("n_jobs")`, or with a value `spell("n_jobs", 2)`."""


def as_argument(name: str, *value: object) -> str:
    """The Python spelling of an option: `n_jobs`, or `n_jobs=2` with a value."""
    return f"{name}={value[0]!r}" if value else name


class GlaceError(Exception):
    """Base class of all errors; the message says what was expected, what was found and what to do."""


class InputError(GlaceError, ValueError):
    """A value, table or option cannot be used as given.

    Parameters
    ----------
    message : str
        What was expected, what was found and what to do.
    option : str, optional
        The option that has the bad value. Its name starts the text: `InputError("must be at least 1, not 0",
        option="n_jobs")` reads "n_jobs must be at least 1, not 0".
    hint : tuple of (str, object), optional
        An option and a value that solve the problem. They end the text in parentheses: "... (validation_fraction=0)".

    Notes
    -----
    Names of options are data, so that each interface can spell them its own way: `error.text(spell)`.
    """

    def __init__(self, message: str, option: str | None = None, hint: tuple[str, object] | None = None) -> None:
        self.message, self.option, self.hint = message, option, hint
        super().__init__(self.text())

    def text(self, spell: Spelling = as_argument) -> str:
        """Return the whole message, with the names of options in the given spelling.

        Parameters
        ----------
        spell : callable
            Spells an option, `spell(name)` or `spell(name, value)`; by default as in Python, `n_jobs=2`. The command
            line passes a function that returns `--n-jobs 2`.

        Returns
        -------
        str
            The message.

        Examples
        --------
        >>> import glace
        >>> error = glace.InputError("must be at least 1, not 0", option="n_jobs")
        >>> error.text()
        'n_jobs must be at least 1, not 0'
        >>> error.text(lambda name, *value: "--" + name.replace("_", "-"))
        '--n-jobs must be at least 1, not 0'
        """
        start = "" if self.option is None else f"{spell(self.option)} "
        return f"{start}{self.message}{'' if self.hint is None else f' ({spell(*self.hint)})'}"


class TooLarge(InputError):
    """The data does not fit into memory."""


class DistributedError(InputError):
    """The processes of a distributed run cannot go on together: one is lost or stopped, or never came.

    Parameters
    ----------
    message : str
        Which rank this is, what happened and what to do.
    option, hint
        As those of `InputError`.
    """


class FormatError(GlaceError, ValueError):
    """A file is damaged, has another format, or has a version that this package does not read."""


class TrainingDiverged(GlaceError, ArithmeticError):
    """The loss became infinite or NaN; no model was written."""
