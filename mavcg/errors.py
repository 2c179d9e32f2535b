"""The errors that users see: each names the location, the value and the remedy."""


class MavcgError(Exception):
    """Bad input or a missing tool; the CLI prints it on one line and exits with code 2.

    The message reads `location: what is wrong with which value; the remedy`.
    """


class OptionError(MavcgError):
    """An option that does not fit the model, whatever the lengths of its dimensions."""


class ProfileError(MavcgError):
    """A core, board or perf profile that cannot be used."""


class ToolError(MavcgError):
    """An outside tool (compiler, linker, perf) is missing or refused its input."""


class CannotRun(ToolError):
    """An outside tool is missing, or the system does not let it run."""


# What the system's loader says of a library for which there is no address space: glibc, and strerror(ENOMEM).
_NO_MEMORY = ("failed to map segment", "cannot allocate memory")


def import_problem(error: ImportError, absent: str, kind: type[MavcgError] = MavcgError) -> MavcgError:
    """Return the error for a package that cannot be imported: that memory is short, if the loader says so.

    absent: otherwise its message, for a package that is not installed. kind: class of the error.
    """
    if any(words in str(error).lower() for words in _NO_MEMORY):
        return kind(f"more memory is needed than is available ({error}); allow more (ulimit -v)")
    return kind(absent)


def fault_text(error: Exception) -> str:
    """Return the words for an exception that is not the user's error."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"by a fault of mavcg, please report it: {text}"
