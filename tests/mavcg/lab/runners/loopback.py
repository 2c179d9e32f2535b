"""An sshd on loopback that takes one key."""

import getpass
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Sshd:
    """A server and the files of its clients. name: as --runner takes it."""

    folder: Path
    port: int
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def name(self) -> str:
        return f"ssh:{getpass.getuser()}@127.0.0.1:{self.port}"

    def client(self, key: str = "key", known: str = "known_hosts") -> str:
        """The words of a client that has this key and knows these hosts."""
        config = self.folder / f"config-{key}-{known}"
        lines = [
            "Host *",
            f"IdentityFile {self.folder / key}",
            "IdentitiesOnly yes",
            "StrictHostKeyChecking yes",
            f"UserKnownHostsFile {self.folder / known}",
            "GlobalKnownHostsFile /dev/null",
            "KexAlgorithms curve25519-sha256",
        ]
        config.write_text("\n".join(lines) + "\n")
        return shlex.join(["ssh", "-F", str(config)])

    def start(self) -> None:
        sshd = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
        assert sshd is not None
        log = (self.folder / "sshd.log").open("ab")
        command = [sshd, "-D", "-e", "-f", str(self.folder / "sshd_config")]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        until = time.monotonic() + 100
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < until and self.process.poll() is None, log_text(self.folder)
                time.sleep(0.02)

    def stop(self) -> None:
        """The server and, since it is their session, all connections."""
        if self.process is not None:
            for process in _descendants(self.process.pid):
                _kill(process)
            _kill(self.process.pid)
            self.process.wait()
            self.process = None

    def cut(self) -> None:
        """End the connections that are there; the server stays."""
        assert self.process is not None
        for process in _descendants(self.process.pid):
            name = Path(f"/proc/{process}/comm")
            if name.exists() and name.read_text().startswith("sshd"):
                _kill(process)


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return


def _descendants(process: int) -> list[int]:
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if words[1] == str(process):
            found += [int(stat.parent.name), *_descendants(int(stat.parent.name))]
    return found


def log_text(folder: Path) -> str:
    return (folder / "sshd.log").read_text(errors="replace")


def make_sshd(folder: Path, more: Mapping[str, object] | None = None) -> Sshd:
    """Write keys, the server's configuration with further settings, for a free port."""
    if shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin") is None:
        pytest.skip("sshd is not there: Debian's package openssh-server")
    if shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        pytest.skip("ssh is not there: Debian's package openssh-client")
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # a server that root starts insists
    for name in ("host", "other_host", "key", "other_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "key.pub", folder / "authorized_keys")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    for known, key in (("known_hosts", "host"), ("wrong_hosts", "other_host")):
        public = " ".join((folder / f"{key}.pub").read_text().split()[:2])
        (folder / known).write_text(f"[127.0.0.1]:{port} {public}\n")
    settings = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": folder / "host",
        "PidFile": "none",
        "AuthorizedKeysFile": folder / "authorized_keys",
        "UsePAM": "no",
        "StrictModes": "no",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "PermitRootLogin": "yes",
        "MaxStartups": "100:30:200",
        "UseDNS": "no",
        **(more or {}),
    }
    (folder / "sshd_config").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    return Sshd(folder, port)
