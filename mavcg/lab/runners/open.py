"""Opens the machine that --runner names."""

from mavcg.lab.runners.adb import find_device
from mavcg.lab.runners.finished import RunnerError
from mavcg.lab.runners.local import LocalTransport
from mavcg.lab.runners.shell_runner import ShellRunner
from mavcg.lab.runners.ssh import parse_ssh

FORMS = "local, ssh:user@host, ssh:user@host:port, adb or adb:SERIAL"


def check_runner(text: str) -> None:
    """Raise RunnerError if a text does not name a runner; no machine is contacted."""
    kind, _, address = text.partition(":")
    if kind == "ssh" and address:
        parse_ssh(address)
    elif text == "simulate":
        raise RunnerError(f"--runner {text}: runs no programs, and only `mavcg tune` takes it; here give {FORMS}")
    elif kind == "fleet":
        raise RunnerError(f"--runner {text}: only `mavcg tune` takes a fleet's file; here give {FORMS}")
    elif text not in ("local", "adb") and not (kind == "adb" and address):
        raise RunnerError(
            f"--runner {text}: is not a runner; give {FORMS}; `mavcg tune` also takes fleet:FILE and simulate"
        )


def open_runner(text: str) -> ShellRunner:
    """Return the runner for local, ssh:user@host[:port] or adb[:SERIAL]; nothing is created on the machine yet.

    Raises: RunnerError for any other text; for adb, if adb is missing, or there is no device or more than one.
    """
    check_runner(text)
    kind, _, rest = text.partition(":")
    if kind == "ssh":
        return ShellRunner(parse_ssh(rest))
    return ShellRunner(find_device(rest) if kind == "adb" else LocalTransport())
