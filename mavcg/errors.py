"""The one error that users see: it names the place, the value and the way out."""


class MavcgError(Exception):
    """Bad input or a missing tool; the CLI prints it on one line and exits with code 2.

    The message reads `place: what is wrong with which value; the way out`.
    """


class ProfileError(MavcgError):
    """A core, board or perf profile that cannot be used."""


class ToolError(MavcgError):
    """An outside tool (compiler, linker, perf) is missing or refused its input."""
