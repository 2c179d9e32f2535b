"""AMX's tiles need the system's permission: asked for where a version needs it, and refused versions do not run."""

import platform
import subprocess
from pathlib import Path

import pytest

from mavcg.files.child_python import python_command
from mavcg.hardware.feature_levels import lower_levels
from mavcg.profiles.load import load_core
from mavcg.runtime.coreset import GENERIC_ID, CoreSet
from mavcg.runtime.needs import cpuid_words, kernel_usable_extensions
from tests.runtime.offered_needs import ALL_BITS, tile_asker

TILES = ("amx-int8", "amx-tile")
# The kernel's own answer, before and after: bit 18 of what ARCH_GET_XCOMP_PERM reports (Linux, xstate.rst).
ASKS = """
import ctypes
from mavcg.runtime.binding import tiles_permitted

def permitted():
    mask = ctypes.c_uint64()
    ctypes.CDLL(None).syscall(158, 0x1022, ctypes.byref(mask))
    return bool(mask.value >> 18 & 1)

before, answers = permitted(), [tiles_permitted() for _ in range(2)]
print(before, *answers, permitted())
"""
# A stack for signals that is too small for the state of tiles, with which Linux refuses them.
SMALL_STACK = """
import ctypes
class Stack(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("flags", ctypes.c_int), ("bytes", ctypes.c_size_t)]
memory = ctypes.create_string_buffer(4096)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(131, ctypes.byref(Stack(ctypes.addressof(memory), 0, 4096)), None) == 0, ctypes.get_errno()
"""


def answers_of(code: str) -> list[str]:
    done = subprocess.run(python_command(code), capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_version_with_tiles_runs_where_the_system_permits_them(tmp_path: Path) -> None:
    """It is asked only for a version whose other needs are all met."""
    core = load_core("sapphirerapids")
    noamx = lower_levels(core, kernel_usable_extensions(core))[0]
    core_set = CoreSet((core, noamx), (TILES, ("avx512f",)))
    ask = tile_asker(core_set, tmp_path)
    amx, avx512, nothing = ALL_BITS, cpuid_words(["avx512f"]), (0,) * len(ALL_BITS)
    questions = [(core, words) for words in (amx, avx512, nothing)]
    own, level = (core_set.id_of(name) for name in core_set.names)

    assert ask(questions, False) == ([(own, own), (level, level), (GENERIC_ID, 0)], 2)
    assert ask(questions, True) == ([(level, level), (level, level), (GENERIC_ID, 0)], 2)


@pytest.mark.skipif(platform.system() != "Linux" or platform.machine() != "x86_64", reason="Linux on x86-64 gives it")
def test_this_process_has_what_the_kernel_says_that_it_has() -> None:
    before, first, second, after = answers_of(ASKS)

    assert first == second == after
    if after == "True":
        assert before == "False"
        assert answers_of(SMALL_STACK + ASKS) == ["False"] * 4
