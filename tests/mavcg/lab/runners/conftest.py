"""An sshd on loopback that takes one key, and an adb that stands before a folder in place of a device."""

import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mavcg.lab.runners.ssh import COMMAND_VARIABLE
from tests.mavcg.lab.runners.loopback import Sshd, make_sshd

FAKE_ADB = Path(__file__).with_name("fake_adb.py")


@pytest.fixture(scope="session")
def sshd_files(tmp_path_factory: pytest.TempPathFactory) -> Sshd:
    """Keys, the server's configuration and a free port."""
    return make_sshd(tmp_path_factory.mktemp("sshd"))


@pytest.fixture
def sshd(sshd_files: Sshd, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A server that runs, and a client that it lets in."""
    sshd_files.start()
    monkeypatch.setenv(COMMAND_VARIABLE, sshd_files.client())
    try:
        yield sshd_files
    finally:
        sshd_files.stop()


@dataclass(frozen=True)
class Device:
    """What stands for a phone: its root folder, and the file that says how adb sees devices."""

    root: Path
    states: Path

    def see(self, *lines: str) -> None:
        """What `adb devices` lists: "SERIAL STATE", and words for how the device behaves."""
        self.states.write_text("\n".join(lines) + "\n")


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Device:
    """One device, "R58M", that is there; /data/local/tmp is a folder of the test's."""
    found = Device(tmp_path / "device", tmp_path / "devices.txt")
    (found.root / "data/local/tmp").mkdir(parents=True)
    found.see("R58M device")
    program = tmp_path / "bin" / "adb"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S {shlex.quote(str(FAKE_ADB))} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_ADB_ROOT", str(found.root))
    monkeypatch.setenv("FAKE_ADB_STATES", str(found.states))
    monkeypatch.delenv("ANDROID_SERIAL", raising=False)
    return found
