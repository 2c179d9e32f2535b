"""What is wrong with a machine, or with the way to it, is one error that says what to do."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mavcg.lab.runners.adb import AdbTransport
from mavcg.lab.runners.open import open_runner
from mavcg.lab.runners.shell_runner import FOLDER_VARIABLE
from mavcg.lab.runners.ssh import COMMAND_VARIABLE, SshTransport, parse_ssh
from mavcg.lab.runners.transport import ConnectionLost, RunnerError


def program(tmp_path: Path, text: str = "exit 0\n") -> Path:
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\n" + text)
    return path


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("pi@10.0.0.7", "pi@10.0.0.7", None),
        ("board", "board", None),
        ("pi@board.local:2222", "pi@board.local", 2222),
        ("root@[fe80::1%eth0]:22", "root@fe80::1%eth0", 22),
        ("[::1]", "::1", None),
    ],
)
def test_a_host(text: str, host: str, port: int | None) -> None:
    address = parse_ssh(text)
    assert (address.host, address.port) == (host, port)
    words = address.argv("true")
    assert words[words.index("--") + 1 :] == [host, "sh -c true"] and "BatchMode=yes" in words
    address.close()


@pytest.mark.parametrize(
    "text", ["-oProxyCommand=x", "pi@-x", "a b", "pi@host:0", "pi@host:70000", "pi@host:x", "@h", "h;id"]
)
def test_what_is_no_host(text: str) -> None:
    with pytest.raises(RunnerError, match="is not a user and host; write ssh:user@host"):
        open_runner(f"ssh:{text}")


@pytest.mark.parametrize("text", ["", "ssh:", "ssh", "adb:", "local:x", "telnet:x", "LOCAL"])
def test_what_is_no_runner(text: str) -> None:
    with pytest.raises(RunnerError, match="is not a runner; give local, ssh:user@host"):
        open_runner(text)


def reason(name: str) -> str:
    with open_runner(name) as runner, pytest.raises(RunnerError) as error:
        runner.facts()
    assert not isinstance(error.value, ConnectionLost) and "\n" not in str(error.value)
    return str(error.value)


def test_ssh_to_where_nobody_listens(sshd: Any) -> None:
    sshd.stop()
    assert reason(sshd.name).startswith(f"{sshd.name}: refused on port {sshd.port}; see that sshd runs there")


def test_ssh_with_a_wrong_key_or_host(sshd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMMAND_VARIABLE, sshd.client(key="other_key"))
    assert "takes no key of yours" in reason(sshd.name) and "ssh-copy-id" in reason(sshd.name)
    monkeypatch.setenv(COMMAND_VARIABLE, sshd.client(known="wrong_hosts"))
    assert "its host key is unknown or new" in reason(sshd.name)


def test_ssh_without_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMMAND_VARIABLE, "/no/such/ssh -4")
    assert "/no/such/ssh is not there; install an ssh client (openssh-client)" in reason("ssh:pi@board")
    monkeypatch.setenv(COMMAND_VARIABLE, "/etc/passwd")
    assert "/etc/passwd cannot be run (Permission denied)" in reason("ssh:pi@board")


@pytest.mark.parametrize(
    ("words", "running", "kind", "told"),
    [
        ("ssh: Could not resolve hostname x: Name or service not known", False, RunnerError, "no such host"),
        ("ssh: connect to host x port 22: Connection timed out", False, RunnerError, "does not answer"),
        ("ssh: connect to host x port 22: No route to host", True, ConnectionLost, "does not answer"),
        ("Timeout, server x not responding.", True, ConnectionLost, "the connection was lost"),
        ("Connection to x closed by remote host.", False, ConnectionLost, "the connection was lost"),
        ("", True, ConnectionLost, "it says nothing"),
        ("Bad configuration option: foo", False, RunnerError, "see that `ssh x` works by hand"),
    ],
)
def test_what_ssh_says(words: str, running: bool, kind: type[RunnerError], told: str) -> None:
    found = SshTransport("x").fault(255, words, running)
    assert type(found) is kind and told in str(found)


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for 16 KiB."""
    folder = tmp_path / "full"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", folder], capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here: it takes root")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("kind", ["local", "ssh"])
def test_no_room(kind: str, full: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: Any) -> None:
    name = request.getfixturevalue("sshd").name if kind == "ssh" else "local"
    monkeypatch.setenv(FOLDER_VARIABLE, str(full))
    large = program(tmp_path, "exit 0\n" + "#" * (1 << 17))
    with (
        open_runner(name) as runner,
        pytest.raises(RunnerError, match="No space left on device.*see that there is room"),
    ):
        runner.run(large, [])
    assert list(full.iterdir()) == []


@pytest.mark.parametrize("kind", ["local", "ssh", "adb"])
def test_a_folder_that_is_not_there(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "adb":
        request.getfixturevalue("device")
    name = request.getfixturevalue("sshd").name if kind == "ssh" else kind
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "a b" / "absent"))
    with open_runner(name) as runner, pytest.raises(RunnerError, match=f"cannot be made .*{FOLDER_VARIABLE}"):
        runner.run(program(tmp_path), [])


def test_what_is_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    (tmp_path / "program").write_bytes(b"\x7fELF" + bytes(60))
    with (
        open_runner("local") as runner,
        pytest.raises(RunnerError, match=f"programs cannot be run there.*{FOLDER_VARIABLE}"),
    ):
        runner.run(tmp_path / "program", [])


def test_files_that_do_not_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with open_runner("local") as runner, pytest.raises(RunnerError, match="absent: No such file"):
        runner.run(program(tmp_path), [], files_out={"absent": tmp_path / "out"})


def adb_reason(device: Any, *states: str, name: str = "adb") -> str:
    device.see(*states)
    with pytest.raises(RunnerError) as error:
        open_runner(name)
    return str(error.value)


def test_adb_without_a_device_that_can_be_used(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there is no device; plug one in" in adb_reason(device)
    assert "several devices: R58M, emulator-5554; name one: --runner adb:SERIAL" in adb_reason(
        device, "R58M device", "emulator-5554 device"
    )
    assert "does not trust this machine" in adb_reason(device, "R58M unauthorized")
    assert "adb:R58M: is offline; unplug it" in adb_reason(device, "R58M offline", "X device", name="adb:R58M")
    assert "is in state 'recovery'" in adb_reason(device, "R58M recovery")
    assert "no such device (there are: R58M)" in adb_reason(device, "R58M device", name="adb:R59")
    assert "is not a serial number" in adb_reason(device, "R58M device", name="adb:-s x")
    monkeypatch.setenv("PATH", "/no/such/folder")
    assert "adb is not there; install adb" in adb_reason(device, "R58M device")


def test_adb_takes_the_device_that_is_named(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    device.see("R58M device", "emulator-5554 device")
    assert open_runner("adb:emulator-5554").name == "adb:emulator-5554"
    monkeypatch.setenv("ANDROID_SERIAL", "R58M")
    assert open_runner("adb").name == "adb:R58M"


def test_adb_without_room(device: Any, tmp_path: Path) -> None:
    device.see("R58M device full")
    with (
        open_runner("adb") as runner,
        pytest.raises(RunnerError, match="No space left on device.*see that there is room"),
    ):
        runner.run(program(tmp_path), [])
    assert list((device.root / "data/local/tmp").iterdir()) == []


@pytest.mark.parametrize("how", ["lost", "lost offline"])
def test_adb_that_loses_its_device(device: Any, tmp_path: Path, how: str) -> None:
    device.see(f"R58M device {how}")
    lines: list[str] = []
    with open_runner("adb") as runner, pytest.raises(ConnectionLost):
        runner.run(program(tmp_path, "echo '{}'; sleep 5; echo '{}'\n"), [], on_line=lines.append)
    assert lines == ["{}"]
    assert list((device.root / "data/local/tmp").iterdir()) == []  # it was there again in the end


def test_a_device_that_goes_while_it_is_asked(device: Any) -> None:
    gone = AdbTransport("R58M").fault(1, "adb: device 'R58M' not found", True)
    assert isinstance(gone, ConnectionLost) and "there is no such device" in str(gone)
    with open_runner("adb") as runner:
        device.see("R58M unauthorized")
        with pytest.raises(RunnerError, match="answer yes to its question"):
            runner.facts()
    assert os.path.isdir(device.root)
