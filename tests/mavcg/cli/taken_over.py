"""The acts of a reader that its file has taken over; no heavy imports, as a process with threads is not confined."""

import os
import socket
from pathlib import Path


def hostile(home: Path, port: int) -> list[str]:
    """Write, connect and start a shell; return each thing that succeeded. port: one of this machine that listens."""
    managed = []
    try:
        (home / ".bashrc").write_text("x")
        managed.append("wrote to the home folder")
    except OSError:
        pass
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        managed.append("connected")
    except OSError:
        pass
    process = os.fork()
    if not process:
        os.execvp("sh", ["sh", "-c", f"echo x 2>/dev/null > {home}/.profile"])
    if os.waitpid(process, 0)[1] == 0:
        managed.append("wrote by a shell")
    return managed
