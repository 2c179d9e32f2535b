"""Exit status and traceback setting of a command that fails."""

import os

EXIT_BAD_INPUT = 2


def show_tracebacks() -> bool:
    """True if MAVCG_DEBUG is set: errors are shown with tracebacks."""
    return bool(os.environ.get("MAVCG_DEBUG"))
