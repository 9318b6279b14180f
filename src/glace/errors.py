"""Every error the package raises on purpose; a caller catches `GlaceError` for all of them."""


class GlaceError(Exception):
    """Anything glace refuses to do; the message says what was wanted, what came and what to do."""


class InputError(GlaceError, ValueError):
    """A value, table or option that cannot be used as given."""


class TooLarge(InputError):
    """Something that does not fit into the memory a machine can be expected to have."""


class FormatError(GlaceError, ValueError):
    """A file that is damaged, of another kind, or of a version this package does not read."""


class TrainingDiverged(GlaceError, ArithmeticError):
    """The loss became infinite or not a number; nothing was written."""
