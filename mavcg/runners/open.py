"""Open the machine that --runner names."""

from mavcg.runners.adb import find_device
from mavcg.runners.finished import RunnerError
from mavcg.runners.local import LocalTransport
from mavcg.runners.shell_runner import ShellRunner
from mavcg.runners.ssh import parse_ssh

FORMS = "local, ssh:user@host, ssh:user@host:port, adb or adb:SERIAL"


def open_runner(text: str) -> ShellRunner:
    """Return the runner for local, ssh:user@host[:port] or adb[:SERIAL]. Nothing is created there yet.

    Raises: RunnerError for anything else, for adb where no device is or more than one, where adb is not there.
    """
    kind, _, rest = text.partition(":")
    if text == "local":
        return ShellRunner(LocalTransport())
    if kind == "ssh" and rest:
        return ShellRunner(parse_ssh(rest))
    if text == "adb" or (kind == "adb" and rest):
        return ShellRunner(find_device(rest))
    raise RunnerError(f"--runner {text}: is none; give {FORMS}")
