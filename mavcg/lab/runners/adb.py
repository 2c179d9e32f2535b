"""Transport to a phone over adb; programs run in the folder from which its shell may run them."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from mavcg.lab.runners.client import Client, run_client
from mavcg.lab.runners.transport import ConnectionLost, RunnerError, last_line

SERIAL_VARIABLE = "ANDROID_SERIAL"  # adb's own variable
INSTALL = "install adb (Android SDK platform-tools)"
DEVICES_S = 30.0  # timeout of `adb devices`, which may start adb's server
SEND_S = 300.0
UNAUTHORISED = "does not trust this machine; unlock it and answer yes to its question about USB debugging"
OFFLINE = "is offline; unplug it and plug it in again, or run `adb reconnect`"


@dataclass(frozen=True)
class AdbTransport:
    """The device with a serial number. Scripts print their status, because adb before 2016 does not return it."""

    serial: str

    @property
    def name(self) -> str:
        """Return the name as `Transport.name` does."""
        return f"adb:{self.serial}"

    @property
    def is_this_machine(self) -> bool:
        """Implement `Transport.is_this_machine`."""
        return False

    @property
    def install(self) -> str:
        """Implement `Transport.install`."""
        return INSTALL

    @property
    def folder(self) -> str:
        """Implement `Transport.folder`."""
        return "/data/local/tmp"

    def argv(self, script: str) -> list[str]:
        """Implement `Transport.argv`."""
        return ["adb", "-s", self.serial, "shell", script]

    def send(self, file: Path, to: str) -> None:
        """Implement `Transport.send`."""
        self._check_copy(self._copy("push", str(file), to), to, "written", "see that there is room")

    def fetch(self, file: str, to: Path) -> None:
        """Implement `Transport.fetch`."""
        self._check_copy(self._copy("pull", file, str(to)), file, "read", "run it again")

    def _copy(self, *words: str) -> Client:
        return run_client(["adb", "-s", self.serial, *words], self.name, INSTALL, silence_s=SEND_S)

    def _check_copy(self, client: Client, file: str, how: str, remedy: str) -> None:
        message = f"{client.stdout.decode('utf-8', 'replace')}\n{client.words}"
        if client.status == 0 and "adb: error" not in message and "failed to copy" not in message:
            return
        if _about_device(message):
            raise self.fault(client.status, message, True)
        raise RunnerError(f"{self.name}: {file}: cannot be {how} ({last_line(message)}); {remedy}")

    def close(self) -> None:
        """Implement `Transport.close`; nothing is kept open."""

    def fault(self, status: int, client_message: str, running: bool) -> RunnerError:
        """Implement `Transport.fault`."""
        kind = ConnectionLost if running else RunnerError
        if "unauthorized" in client_message:
            return RunnerError(f"{self.name}: {UNAUTHORISED}")
        if "offline" in client_message:
            return kind(f"{self.name}: {OFFLINE}")
        if "not found" in client_message or "no devices" in client_message:
            return kind(f"{self.name}: there is no such device; `adb devices` lists those that are there")
        return kind(f"{self.name}: the connection was lost ({last_line(client_message)}); run it again")


def _about_device(message: str) -> bool:
    return bool(re.search(r"unauthorized|device offline|device '[^']*' not found|no devices|connection reset", message))


def find_device(serial: str = "") -> AdbTransport:
    """Return the device with this serial number, or with that of ANDROID_SERIAL, or the only device.

    Raises: RunnerError if there is none, if there are several and none is named, or if it cannot be used.
    """
    serial = serial or os.environ.get(SERIAL_VARIABLE, "")
    if serial.startswith("-") or any(letter.isspace() for letter in serial):
        raise RunnerError(f"--runner adb:{serial}: is not a serial number; `adb devices` lists those that are there")
    done = run_client(["adb", "devices"], "adb", INSTALL, silence_s=DEVICES_S)
    if done.status:
        raise RunnerError(f"adb devices: {last_line(done.words)}; see that adb works by hand")
    rows = (line.split("\t") for line in done.stdout.decode("utf-8", "replace").splitlines())
    states = {row[0].strip(): row[1].strip() for row in rows if len(row) == 2}
    if serial and serial not in states:
        there = ", ".join(states) or "none"
        raise RunnerError(f"adb:{serial}: there is no such device (there are: {there}); name one of `adb devices`")
    if not states:
        raise RunnerError("adb: there is no device; plug one in with USB debugging on, and see `adb devices`")
    if not serial and len(states) > 1:
        raise RunnerError(f"adb: there are several devices: {', '.join(states)}; name one: --runner adb:SERIAL")
    chosen = serial or next(iter(states))
    if states[chosen] == "unauthorized":
        raise RunnerError(f"adb:{chosen}: {UNAUTHORISED}")
    if states[chosen] != "device":
        meaning = OFFLINE if states[chosen] == "offline" else f"is in state '{states[chosen]}'; see `adb devices`"
        raise RunnerError(f"adb:{chosen}: {meaning}")
    return AdbTransport(chosen)
