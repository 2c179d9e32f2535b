"""AMX's tiles need the system's permission: asked for where a version needs it, and refused versions do not run."""

import platform
import subprocess
from pathlib import Path

import pytest

from mavcg.files.child_python import python_command
from mavcg.hardware.feature_levels import lower_levels
from mavcg.profiles.load import load_core
from mavcg.runtime import binding
from mavcg.runtime.coreset import GENERIC_ID, CoreSet
from mavcg.runtime.machines import machines_for
from mavcg.runtime.needs import cpuid_words, kernel_usable_extensions
from mavcg.toolchain.target import parse_target
from tests.runtime.offered_needs import ALL_BITS, tile_asker

TILES = ("amx-int8", "amx-tile")
X86 = parse_target("x86_64-linux-musl")
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


@pytest.mark.parametrize("permitted", [True, False])
def test_code_of_this_process_has_tiles_if_they_are_permitted(permitted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine,) = (m for m in machines_for([load_core("sapphirerapids")], X86).values() if m.int8_tiles)
    monkeypatch.setattr(binding, "tiles_permitted", lambda: permitted)

    runnable = binding.runnable_machine(machine)
    assert runnable.int8_tiles is runnable.bf16_tiles is permitted and runnable.dot_product


@pytest.mark.skipif(platform.system() != "Linux" or platform.machine() != "x86_64", reason="Linux on x86-64 gives it")
def test_this_process_has_what_the_kernel_says_that_it_has() -> None:
    before, first, second, after = answers_of(ASKS)

    assert first == second == after
    if after == "True":
        assert before == "False"
        assert answers_of(SMALL_STACK + ASKS) == ["False"] * 4
