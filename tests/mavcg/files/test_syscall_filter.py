"""The filter of system calls: interpreted step by step for every architecture, and held by this kernel."""

import errno
import itertools
import platform
import socket
import struct
import subprocess

import pytest

from mavcg.files import syscall_filter
from mavcg.files.syscall_filter import knows_filters, refuse_sockets
from tests.mavcg.files.confined_child import in_confined_child, outcome

ALLOW, ERROR = 0x7FFF0000, 0x00050000
X86_64, I386, AARCH64, ARM, RISCV64 = 0xC000003E, 0x40000003, 0xC00000B7, 0x40000028, 0xC00000F3


def verdict(program: list[tuple[int, int, int, int]], audit: int, number: int, second: int = 0) -> int:
    """Return what a classic BPF program returns: one register, the six opcodes that are used. Source: bpf(4)."""
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, audit, 0, 0, second, 0, 0, 0, 0)
    accumulator, at = 0, 0
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        if code == 0x20:  # BPF_LD | BPF_W | BPF_ABS
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif code == 0x15:  # BPF_JMP | BPF_JEQ | BPF_K
            at += if_true if accumulator == value else if_false
        elif code == 0x54:  # BPF_ALU | BPF_AND | BPF_K
            accumulator &= value
        else:
            assert code == 0x06, hex(code)  # BPF_RET | BPF_K
            return value


@pytest.mark.parametrize(
    ("machine", "own", "small", "sockets", "small_sockets", "ioctls"),
    [
        ("x86_64", X86_64, I386, {41, 41 | 0x40000000}, {359, 102}, (16, 54)),
        ("aarch64", AARCH64, ARM, {198, 198 | 0x40000000}, {281, 102}, (29, 54)),
    ],
)
def test_every_call_of_both_architectures(
    machine: str,
    own: int,
    small: int,
    sockets: set[int],
    small_sockets: set[int],
    ioctls: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    program = syscall_filter._program()
    numbers = [*range(600), *(number | 0x40000000 for number in range(600)), 0xFFFFFFFF]
    for (audit, refused, ioctl), number in itertools.product(
        ((own, sockets, ioctls[0]), (small, small_sockets, ioctls[1])), numbers
    ):
        plain = number & ~0x40000000 if number != 0xFFFFFFFF else number
        expected = ALLOW
        if number in refused or plain in refused:
            expected = ERROR | errno.EACCES
        elif plain == 425:
            expected = ERROR | errno.ENOSYS
        assert verdict(program, audit, number) == expected, (hex(audit), number)
        typed = verdict(program, audit, number, second=0x5412)
        assert typed == (ERROR | errno.EPERM if plain == ioctl else expected), (hex(audit), number)
        assert verdict(program, audit, ioctl, second=0x5401) == ALLOW  # TCGETS
    assert verdict(program, RISCV64, 0) == ERROR | errno.EPERM


def test_no_connection_leaves_the_process() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()

    def work() -> dict[str, str]:
        assert refuse_sockets()
        actions = {
            "tcp": lambda: socket.create_connection(address, 1),
            "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
            "unix": lambda: socket.socket(socket.AF_UNIX),
            "pair": lambda: len(socket.socketpair()) - 2,
            "program": lambda: subprocess.run(["true"], check=True).returncode,
            "bash": lambda: (
                (
                    subprocess.run(["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{address[1]}"], capture_output=True)
                ).returncode
            ),
        }
        return {name: outcome(action) for name, action in actions.items()}

    with listener:
        came = in_confined_child(work)

    assert came == {
        "tcp": "EACCES",
        "udp": "EACCES",
        "unix": "EACCES",
        "pair": "done",
        "program": "done",
        "bash": "status 1",
    }


def test_an_unknown_processor_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert not knows_filters()
    assert refuse_sockets() is False
