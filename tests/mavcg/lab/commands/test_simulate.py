"""`mavcg simulate`, run as a user runs it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.toolchain.zig import run_zig
from tests.mavcg.lab.simulate.traced_programs import needs_traced_qemu, program_of

KERNEL = """
	.text
	.globl	axpy
	.type	axpy, %function
axpy:
	dup	v16.4s, v0.s[0]
1:	ldr	q1, [x0], #16
	ldr	q2, [x1]
	fmla	v2.4s, v1.4s, v16.4s
	str	q2, [x1], #16
	subs	x2, x2, #4
	b.gt	1b
	ret
"""
CALL = ("--function", "axpy", "--args", "buf:4096 buf:4096 i:1024 f:2")


@pytest.fixture(autouse=True)
def _kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("unicorn", reason="the emulator (mavcg[check]) is not installed")
    monkeypatch.chdir(tmp_path)
    Path("kernel.S").write_text(KERNEL)


def simulated(mavcg: Any, *arguments: str | Path) -> dict[str, Any]:
    done = mavcg("simulate", "--json", *arguments)
    assert done.status == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_json_has_what_scripts_rely_on(mavcg: Any) -> None:
    document = simulated(mavcg, "kernel.S", *CALL, "--core", "cortex-a55")

    assert document["instructions"] == 2 + 6 * 256 and document["cycles"] > 6 * 256
    assert document["ipc"] == pytest.approx(document["instructions"] / document["cycles"], abs=1e-4)
    assert document["caches"]["l1"] == {"hits": 3 * 256, "misses": 0}
    assert set(document["stalls"]) <= {"register", "blocked", "branch", "unit", "first", "alone", "issue distance"}
    assert document["confidence"]["assumed"] and "not measured" in document["cycles_are"]


def test_a_cold_call_on_a_board_waits_for_its_memory(mavcg: Any) -> None:
    warm = simulated(mavcg, "kernel.S", *CALL, "--core", "cortex-a75", "--board", "exynos9820")
    cold = simulated(mavcg, "kernel.S", *CALL, "--core", "cortex-a75", "--board", "exynos9820", "--warm", "0")
    assert cold["cycles"] > 2 * warm["cycles"] and cold["stalls"]["memory"] > 0
    # Two buffers of 64 lines, and what the prefetchers read behind their ends.
    assert 128 <= cold["memory"]["lines_read"] <= 128 + 2 * 16
    assert cold["ghz"] == 2.314


def test_an_object_runs_as_its_source(mavcg: Any) -> None:
    run_zig("cc", ["-target", "aarch64-linux-gnu.2.17", "-c", "kernel.S", "-o", "kernel.o"], "assembling")
    of_source, of_object = (simulated(mavcg, file, *CALL, "--core", "cortex-a53") for file in ("kernel.S", "kernel.o"))
    assert of_source["cycles"] == of_object["cycles"]


def test_people_see_cycles_their_loss_and_what_was_assumed(mavcg: Any) -> None:
    done = mavcg("simulate", "kernel.S", *CALL, "--core", "cortex-a55")
    assert done.status == 0 and "simulated, not measured" in " ".join(done.stdout.split())
    assert "cycles lost to: register" in done.stdout and "l1 hits" in done.stdout
    assert "branches.mispredict: 8 cycles assumed; give it in cores/cortex-a55.toml" in done.stderr


@pytest.mark.parametrize(
    "more, error",
    [
        (("--function", "axpi", "--core", "cortex-a55"), "no function is named axpi; did you mean axpy?"),
        (("--function", "axpy", "--core", "cortex-a5"), "--core cortex-a5"),
        (("--function", "axpy", "--core", "skylake"), "--core skylake: is x86_64"),
        (("--function", "axpy", "--core", "cortex-a55", "--args", "buf"), "'buf' is not an argument; give buf:BYTES"),
        (("--function", "axpy", "--core", "cortex-a55", "--args", "buf:99999999999"), "and a simulated call takes"),
        (("--function", "axpy", "--core", "cortex-a55", "--args", "i:1 i:2 i:3"), "accesses"),
        (
            ("--function", "axpy", "--core", "cortex-a55", "--board", "raspberry-pi-4"),
            "raspberry-pi-4 has no such core",
        ),
        (("--core", "cortex-a55"), "name a --function; or give --per-layer"),
        (("--core", "cortex-a55", "--per-layer"), "--per-layer: needs a --board"),
        (("--core", "cortex-a55", "--per-layer", "--function", "axpy"), "--function: is for calls of one function"),
        (("--core", "cortex-a55", "--function", "axpy", "--whole"), "--whole: is about a model's layers"),
        (("--core", "cortex-a55", "--function", "axpy", "--samples", "9"), "--samples: is about a model's layers"),
        (
            ("--core", "cortex-a55", "--board", "exynos9820", "--per-layer", "--whole", "--samples", "9"),
            "--samples: nothing is sampled with --whole",
        ),
        (("--core", "cortex-a55", "--function", "axpy", "--call", "2"), "--call: is for whole programs; give it with"),
        (("--core", "cortex-a55", "--", "word"), "ARGS: is for whole programs; give it with --process"),
        (("--core", "cortex-a55", "--process", "--per-layer"), "--per-layer: has no effect with --process"),
        (("--core", "cortex-a55", "--process", "--between"), "--call, --between: count calls of a function; name a"),
    ],
)
def test_wrong_input_is_an_error_with_a_remedy(mavcg: Any, more: tuple[str, ...], error: str) -> None:
    done = mavcg("simulate", "kernel.S", *more)
    assert done.status == 2 and error in done.stderr and not done.stdout, done.stderr


def test_a_program_runs_as_a_whole(mavcg: Any) -> None:
    needs_traced_qemu()
    source = "#include <stdio.h>\nint main(int n, char **w) { return puts(w[n - 1]) < 0; }\n"
    program = program_of(Path.cwd(), "echo", source, suffix=".c")
    call = ("--process", "--core", "cortex-a55", "--function", "puts")
    document = simulated(mavcg, *call, "--", program, "-x", "--json")
    assert document["calls"] == 1 and document["instructions"] > 20 and document["branches"]["count"] > 2
    done = mavcg("simulate", *call, "--", program)
    assert done.status == 0 and "branches mispredicted" in done.stdout
    assert str(program) not in done.stdout.splitlines()  # the program's output is not part of the report


def test_source_code_is_to_be_compiled(mavcg: Any) -> None:
    """It was taken for assembly with a bad line. The command that the error names makes what is simulated."""
    Path("next.c").write_text("int next(int x) { return x + 1; }\n")
    call = ("--function", "next", "--core", "cortex-a55", "--args", "i:41")
    done = mavcg("simulate", "next.c", *call)
    assert done.status == 2 and "next.c: is source code, not machine code; compile it" in done.stderr
    (command,) = re.findall("`python (.*)`", done.stderr)
    subprocess.run([sys.executable, *command.split()], check=True)
    assert mavcg("simulate", "next.o", *call).status == 0


def test_an_error_offers_no_range_where_one_call_is_made(mavcg: Any) -> None:
    done = mavcg("simulate", "kernel.S", "--function", "axpy", "--core", "cortex-a55", "--args", "z:4")
    assert done.status == 2 and "give buf:BYTES" in done.stderr and ".." not in done.stderr


def test_a_file_that_is_not_there(mavcg: Any) -> None:
    done = mavcg("simulate", "none.S", *CALL, "--core", "cortex-a55")
    assert done.status == 2 and "none.S" in done.stderr


def test_buffers_hold_what_input_gives(mavcg: Any) -> None:
    """`--input` of the issue's command line: a loop over text of 100 bytes ends at its zero, wherever that lies."""
    loop = "mov x1, x0; 1: ldrb w2, [x1], #1; cbnz w2, 1b; ret"
    Path("length.S").write_text(f".text\n.globl length\n.type length, %function\nlength: {loop}\n")
    call = ("length.S", "--function", "length", "--core", "cortex-a55", "--args", "buf:4096=0")
    for count in (7, 99):
        np.save("text.npy", np.frombuffer(b"a" * count, np.uint8))
        assert simulated(mavcg, *call, "--input", "text.npy")["instructions"] == 2 + 2 * (count + 1)
    np.savez("several.npz", a=np.zeros(1), b=np.zeros(1))
    np.save("large.npy", np.zeros(4097, np.uint8))
    Path("none.npy").write_text("no array")
    for files, error in {
        ("large.npy",): "--input: file 1 holds 4097 bytes, its buffer 4096; give a larger buffer",
        ("text.npy", "text.npy"): "--input: 2 files, and --args has 1 buffers",
        ("none.npy",): "--input none.npy: no array could be read",
        ("several.npz",): "--input several.npz: has several arrays, and a buffer takes one",
        ("not.npy",): "--input not.npy: no array could be read",
    }.items():
        done = mavcg("simulate", *call, *(word for file in files for word in ("--input", file)))
        assert done.status == 2 and error in done.stderr and not done.stdout, done.stderr


def test_an_error_names_functions_alone(mavcg: Any) -> None:
    """It once offered the name of the source file, and data."""
    Path("f.c").write_text("int table[4] = {1};\nint first(int i) { return table[i]; }\nint zz(void) { return 2; }\n")
    run_zig("cc", ["-target", "aarch64-linux-gnu.2.17", "-O2", "-c", "f.c", "-o", "f.o"], "compiling")
    for name in ("qqqqqq", "table"):
        done = mavcg("simulate", "f.o", "--function", name, "--core", "cortex-a55")
        assert done.status == 2 and f"f.o: no function is named {name}; it holds first, zz\n" in done.stderr


def test_caches_have_their_own_names(mavcg: Any) -> None:
    """The A55 of exynos9820 has no level 2: what lies behind level 1 is level 3, which was called l2."""
    document = simulated(mavcg, "kernel.S", *CALL, "--core", "cortex-a55", "--board", "exynos9820")
    assert set(document["caches"]) == {"l1", "l3"}
