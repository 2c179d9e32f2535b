"""How a command ends that cannot do what it was asked."""

import os

EXIT_BAD_INPUT = 2


def show_tracebacks() -> bool:
    """Whether MAVCG_DEBUG asks for tracebacks with errors."""
    return bool(os.environ.get("MAVCG_DEBUG"))
