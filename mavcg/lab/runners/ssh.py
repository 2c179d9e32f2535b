"""Transport to a board over ssh, by the system's client with the user's keys, hosts and jumps.

Files are copied through the shell (`cat`), because the small sshd of many boards has neither scp nor sftp.
"""

import contextlib
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from mavcg.files.scratch import scratch_folder
from mavcg.lab.runners.client import run_client
from mavcg.lab.runners.transport import ConnectionLost, RunnerError, last_line
from mavcg.text.terminal import one_line

COMMAND_VARIABLE = "MAVCG_SSH"  # the client and its first arguments, such as "ssh -F board.conf"
CONNECT_S = 10
ALIVE_S = 5  # of silence before a keepalive; the connection is lost after so many of them without an answer:
ALIVE_COUNT = 3
SEND_S = 300.0
KEPT_S = 60  # time for which an idle connection stays open
_HOST = re.compile(
    r"(?:(?P<user>[\w.][\w.-]*)@)?(?P<host>[\w][\w.-]*|\[[0-9a-fA-F:.%\w]+\])(?::(?P<port>\d{1,5}))?", re.A
)

# Pattern of the client's message -> the fault with a remedy; {host} and {port} are filled in.
_FAULTS = (
    (r"Could not resolve|Name or service not known", "{host}: no such host is known; write its address"),
    (r"Connection refused", "refused on port {port}; see that sshd runs there, or name its port: ssh:user@host:port"),
    (
        r"Host key verification failed|HOST IDENTIFICATION",
        "its host key is unknown or new; once run ssh {host} by hand",
    ),
    (
        r"Permission denied|Too many auth",
        "takes no key of yours, and passwords are not supported; run ssh-copy-id {host}",
    ),
    (r"[Tt]imed out|No route to host|is unreachable|Host is down", "does not answer; see that it is on, and near"),
)
_LOST = r"Connection (?:reset|closed)|closed by remote|master failed|Broken pipe|Timeout, server|client_loop|kex_"


@dataclass
class SshTransport:
    """A board over ssh.

    The first script opens a connection, which later scripts share, because a small board takes half a second for a new
    one. host: for ssh, such as user@host, or an alias of the user's configuration.
    """

    host: str
    port: int | None = None
    _control: tuple[contextlib.ExitStack, Path] | None = None  # closes the shared connection's folder; the folder

    @property
    def name(self) -> str:
        """Return the name as `Transport.name` does."""
        return f"ssh:{self.host}" + (f":{self.port}" if self.port else "")

    @property
    def is_this_machine(self) -> bool:
        """Implement `Transport.is_this_machine`."""
        return False

    @property
    def install(self) -> str:
        """Implement `Transport.install`."""
        return f"install an ssh client (openssh-client), or name one by {COMMAND_VARIABLE}"

    @property
    def folder(self) -> str:
        """Implement `Transport.folder`."""
        return "/tmp"

    def argv(self, script: str) -> list[str]:
        """Implement `Transport.argv`. The script is one quoted word, because the login shell may not be POSIX."""
        return [*self._client(), "--", self.host, f"sh -c {shlex.quote(script)}"]

    def close(self) -> None:
        """Implement `Transport.close`."""
        if self._control is not None:
            with contextlib.suppress(RunnerError):
                ending = [*self._client(), "-O", "exit", "--", self.host]
                run_client(ending, self.name, self.install, silence_s=CONNECT_S)
            self._control[0].close()
            self._control = None

    def _client(self) -> list[str]:
        if self._control is None:
            ending = contextlib.ExitStack()
            self._control = ending, ending.enter_context(scratch_folder("mavcg-ssh-"))
        settings = {
            "BatchMode": "yes",
            "ConnectTimeout": CONNECT_S,
            "ServerAliveInterval": ALIVE_S,
            "ServerAliveCountMax": ALIVE_COUNT,
            "RequestTTY": "no",
            "ForwardX11": "no",
            "ControlMaster": "auto",
            "ControlPath": f"{self._control[1]}/%C",
            "ControlPersist": KEPT_S,
        }
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        port = ["-p", str(self.port)] if self.port else []
        return [*(shlex.split(os.environ.get(COMMAND_VARIABLE, "")) or ["ssh"]), *options, *port]

    def send(self, file: Path, to: str) -> None:
        """Implement `Transport.send`."""
        there = shlex.quote(to)
        done = run_client(
            self.argv(f"cat > {there} && wc -c < {there}"), self.name, self.install, silence_s=SEND_S, stdin_file=file
        )
        if done.status == 255:
            raise self.fault(done.status, done.words, True)
        if done.status or done.stdout.strip() != str(file.stat().st_size).encode():
            raise RunnerError(f"{self.name}: {to}: cannot be written ({last_line(done.words)}); see that there is room")

    def fetch(self, file: str, to: Path) -> None:
        """Implement `Transport.fetch`."""
        done = run_client(self.argv(f"cat < {shlex.quote(file)}"), self.name, self.install, silence_s=SEND_S)
        if done.status == 255:
            raise self.fault(done.status, done.words, True)
        if done.status:
            raise RunnerError(f"{self.name}: {file}: cannot be read ({last_line(done.words)}); run it again")
        to.write_bytes(done.stdout)

    def fault(self, status: int, client_message: str, running: bool) -> RunnerError:
        """Implement `Transport.fault`."""
        for pattern, meaning in _FAULTS:
            if re.search(pattern, client_message):
                message = meaning.format(host=self.host, port=self.port or 22)
                return (ConnectionLost if running else RunnerError)(f"{self.name}: {message}")
        if running or re.search(_LOST, client_message):
            return ConnectionLost(f"{self.name}: the connection was lost ({last_line(client_message)}); run it again")
        return RunnerError(f"{self.name}: {last_line(client_message)}; see that `ssh {self.host}` works by hand")


def parse_ssh(text: str) -> SshTransport:
    """Parse user@host:port; user and port are optional, and an IPv6 address is in brackets.

    Raises: RunnerError for any other text.
    """
    match = _HOST.fullmatch(text)
    port = int(match["port"]) if match and match["port"] else None
    if match is None or (port is not None and not 0 < port < 65536):
        raise RunnerError(
            f"--runner ssh:{one_line(text)}: is not a user and host; write ssh:user@host or ssh:user@host:port"
        )
    user = f"{match['user']}@" if match["user"] else ""
    return SshTransport(user + match["host"].strip("[]"), port)
