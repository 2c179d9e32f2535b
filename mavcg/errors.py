"""The errors that users see: each names the location, the value and the remedy."""


class MavcgError(Exception):
    """Bad input or a missing tool; the CLI prints it on one line and exits with code 2.

    The message reads `location: what is wrong with which value; the remedy`.
    """


class ProfileError(MavcgError):
    """A core, board or perf profile that cannot be used."""


class ToolError(MavcgError):
    """An outside tool (compiler, linker, perf) is missing or refused its input."""
