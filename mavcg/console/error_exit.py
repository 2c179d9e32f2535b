"""Exit status of a command that fails, and the setting that shows tracebacks."""

import os

from mavcg.files.disk_space import NO_ROOM, full_folders

EXIT_BAD_INPUT = 2


def system_words(error: OSError) -> str:
    """Return what an error of the system says of which file, and the remedy."""
    # The error of a write to a full disk names no file: unless a folder is known to be full, it was stdout.
    unnamed = (full_folders() or "standard output") if error.errno in NO_ROOM else "a system call"
    location = error.filename2 or error.filename or unnamed
    remedy = "make room" if error.errno in NO_ROOM else "check that it can be read and written"
    return f"{location!s}: {error.strerror or error}; {remedy}"


def show_tracebacks() -> bool:
    """True if MAVCG_DEBUG is set: errors are shown with tracebacks."""
    return bool(os.environ.get("MAVCG_DEBUG"))
