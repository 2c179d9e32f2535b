"""Replacements of the libc functions that a model library calls on one thread: memory, the clock, the environment.

The clock counts the simulated core's cycles, so that the engine's own profile of a run contains simulated times. Files,
threads and system calls do not exist here: functions for them fail as on a system without them.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mavcg.errors import MavcgError
from mavcg.hardware.extensions import hwcap_words
from mavcg.lab.simulate.callees import CalleeEffect

HEAP = 0x50_0000_0000
HEAP_LIMIT = 1 << 33  # maximum bytes that a library may allocate
_ALIGN = 4096
_NO_SYSTEM_CALL = -38 % (1 << 64)  # ENOSYS
_FAILED = (1 << 64) - 1
_PID = 1000
_AT_HWCAP, _AT_HWCAP2 = 16, 26  # Linux include/uapi/linux/auxvec.h


class EngineHost:
    """Heap, clock and environment of a simulated process.

    cycles: function that returns the simulated cycle. environment: entries such as MAVCG_CPU_MAP=0=cortex-a55.
    extensions: of the instruction set, that AT_HWCAP and AT_HWCAP2 show.
    """

    def __init__(
        self,
        emulator: Any,
        cycles: Callable[[], int],
        ghz: float,
        environment: tuple[str, ...],
        extensions: Iterable[str] = (),
    ) -> None:
        self.emulator, self.cycles, self.ghz = emulator, cycles, ghz
        low, high, low2, high2 = hwcap_words(extensions)
        self._auxiliary = {_AT_HWCAP: low | high << 32, _AT_HWCAP2: low2 | high2 << 32}
        self._next = HEAP
        lines = [self.put(line.encode() + b"\0") for line in environment]
        self.environment = self.put(struct.pack(f"<{len(lines) + 1}Q", *lines, 0))
        self._lines = environment

    def take(self, size: int, align: int = _ALIGN) -> int:
        """Allocate zeroed memory and return its address. Raises: MavcgError if the heap exceeds HEAP_LIMIT."""
        at = -(-self._next // max(align, _ALIGN)) * max(align, _ALIGN)
        self._next = at + -(-max(size, 1) // _ALIGN) * _ALIGN + _ALIGN
        if self._next - HEAP > HEAP_LIMIT:
            raise MavcgError(
                f"simulate: the library takes more than {HEAP_LIMIT} bytes of memory; simulate a smaller model"
            )
        self.emulator.map_data(at, max(size, 1))
        return at

    def put(self, content: bytes) -> int:
        """Copy these bytes to new memory and return its address."""
        at = self.take(len(content))
        self.emulator.uc.mem_write(at, content)
        return at

    def functions(self) -> Mapping[str, Callable[[Any], CalleeEffect]]:
        """Return the replacement of each libc function, by name."""
        zero = _returns(0)
        names = (
            "free munmap madvise sched_yield pthread_attr_init pthread_attr_destroy pthread_attr_setstacksize "
            "pthread_setname_np pthread_sigmask sigfillset dladdr pthread_self"
        )
        return {
            **{name: zero for name in names.split()},
            "calloc": lambda e: CalleeEffect(self.take(e.general(0) * e.general(1))),
            "malloc": lambda e: CalleeEffect(self.take(e.general(0))),
            "mmap": lambda e: CalleeEffect(self.take(e.general(1))),
            "posix_memalign": self._allocate_aligned,
            "clock_gettime": self._clock,
            "getauxval": lambda e: CalleeEffect(self._auxiliary.get(e.general(0), 0)),
            "getpid": _returns(_PID),
            "getenv": self._getenv,
            "syscall": _returns(_FAILED),
            "pthread_create": _returns(11),  # EAGAIN
            "strlen": lambda e: CalleeEffect(len(_text(e, e.general(0)))),
        }

    def _allocate_aligned(self, emulator: Any) -> CalleeEffect:
        to, align, size = (emulator.general(n) for n in range(3))
        emulator.uc.mem_write(to, self.take(size, align).to_bytes(8, "little"))
        return CalleeEffect(0)

    def _clock(self, emulator: Any) -> CalleeEffect:
        ns = round(self.cycles() / self.ghz)
        emulator.uc.mem_write(emulator.general(1), struct.pack("<2q", ns // 10**9, ns % 10**9))
        return CalleeEffect(0)

    def _getenv(self, emulator: Any) -> CalleeEffect:
        name = _text(emulator, emulator.general(0)).decode(errors="replace")
        for line in self._lines:
            if line.startswith(f"{name}="):
                return CalleeEffect(self.put(line.partition("=")[2].encode() + b"\0"))
        return CalleeEffect(0)


def system_call(emulator: Any) -> None:
    """Make a system call return -ENOSYS: the system lacks it."""
    emulator.set_general(0, _NO_SYSTEM_CALL)


def _returns(value: int) -> Callable[[Any], CalleeEffect]:
    return lambda emulator: CalleeEffect(value)


def _text(emulator: Any, address: int, most: int = 4096) -> bytes:
    text = bytearray()
    while len(text) < most and (byte := bytes(emulator.uc.mem_read(address + len(text), 1))) != b"\0":
        text += byte
    return bytes(text)
