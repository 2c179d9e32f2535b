"""Exit status of a command that fails, and the setting that shows tracebacks."""

import os

EXIT_BAD_INPUT = 2


def show_tracebacks() -> bool:
    """True if MAVCG_DEBUG is set: errors are shown with tracebacks."""
    return bool(os.environ.get("MAVCG_DEBUG"))
