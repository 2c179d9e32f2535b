"""`mavcg tune-asm --check` on kernels of the usual shapes, which random registers decide seldom and `--args` does."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("unicorn", reason="the check by execution needs mavcg[check]")

# One row of a product with packed weights, in the manner of GEMM micro-kernels: x1 columns, x2 bytes of a row.
GEMM = """\
	.globl gemm
	.type gemm, %function
gemm:
	ldp q20, q21, [x5]
1:
	mov v16.16b, v20.16b
	mov v17.16b, v21.16b
	mov x9, x3
	mov x10, x2
2:
	ldr q0, [x9], #16
	ldp q4, q5, [x4], #32
	ldp q6, q7, [x4], #32
	fmla v16.4s, v4.4s, v0.s[0]
	fmla v17.4s, v5.4s, v0.s[0]
	fmla v16.4s, v6.4s, v0.s[1]
	fmla v17.4s, v7.4s, v0.s[1]
	ldp q4, q5, [x4], #32
	ldp q6, q7, [x4], #32
	fmla v16.4s, v4.4s, v0.s[2]
	fmla v17.4s, v5.4s, v0.s[2]
	fmla v16.4s, v6.4s, v0.s[3]
	fmla v17.4s, v7.4s, v0.s[3]
	subs x10, x10, #16
	b.ne 2b
	stp q16, q17, [x6], #32
	subs x1, x1, #8
	b.ne 1b
	ret
	.size gemm, .-gemm
"""
GEMM_ARGS = "gemm: i:1 i:16 i:64 buf:64 buf:1024 buf:32 buf:64"
# A convolution by an indirection buffer: a table of pointers to rows; a row of zeroes; arguments on the stack.
IGEMM = """\
	.globl igemm
	.type igemm, %function
igemm:
	ldr x8, [sp]
	ldp x11, x12, [sp, #8]
1:
	ldp q20, q21, [x5], #32
	mov x9, x3
2:
	ldr x13, [x4], #8
	cmp x13, x12
	add x14, x13, x11
	csel x13, x13, x14, eq
	mov x10, x2
3:
	ldr s0, [x13], #4
	ldp q16, q17, [x5], #32
	fmla v20.4s, v16.4s, v0.s[0]
	fmla v21.4s, v17.4s, v0.s[0]
	subs x10, x10, #4
	b.ne 3b
	subs x9, x9, #8
	b.ne 2b
	stp q20, q21, [x6]
	add x6, x6, x8
	sub x4, x4, x3
	subs x1, x1, #8
	b.hi 1b
	ret
	.size igemm, .-igemm
"""
IGEMM_ARGS = "igemm: i:1 i:16 i:16..64/4 i:72 ptrs:9x96 buf:8192 buf:256 i:64 i:32 i:16 buf:256=0"
# y += alpha x; and columns a stride apart: with any 64 bits as the stride each access is on a page of its own.
AXPY = """\
	.globl axpy
	.type axpy, %function
axpy:
	cbz x0, 2f
1:
	ldr q1, [x1], #16
	ldr q2, [x2]
	fmla v2.4s, v1.4s, v0.s[0]
	str q2, [x2], #16
	subs x0, x0, #4
	b.gt 1b
2:
	ret
	.size axpy, .-axpy
"""
GEMV = """\
	.globl gemv
	.type gemv, %function
gemv:
	movi v0.4s, #0
	lsl x3, x3, #2
1:
	ldr q1, [x1]
	ldr q2, [x2], #16
	fmla v0.4s, v1.4s, v2.4s
	add x1, x1, x3
	subs x0, x0, #1
	b.ne 1b
	str q0, [x4]
	ret
	.size gemv, .-gemv
"""
CALLS = GEMM.replace("gemm", "calls").replace("\tldp q20, q21, [x5]\n", "\tbl elsewhere\n")


def tuned(mavcg: Any, here: Path, text: str, *more: str, status: int = 0) -> tuple[dict[str, Any], str]:
    """(document by function, stderr)"""
    (here / "k.S").write_text("\t.text\n" + text)
    done = mavcg(
        "tune-asm", "k.S", "--core", "cortex-a55", "-o", "out.S", "--solver-seconds", "0", "--json", "--check", *more
    )
    assert done.status == status, done.stderr
    return {f["name"]: f for f in json.loads(done.stdout)["functions"]} if not status else {}, done.stderr


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (GEMM, GEMM_ARGS),
        (IGEMM, IGEMM_ARGS),
        (AXPY, "axpy: i:64 buf:256 buf:256 f:1.5"),
        (GEMV, "gemv: i:1..30 buf:4096 buf:512 i:32 buf:16=0"),
    ],
)
@pytest.mark.sample(2)
def test_described_kernels_are_decided_from_all_states(mavcg: Any, here: Path, text: str, arguments: str) -> None:
    functions, _ = tuned(mavcg, here, text, "--args", arguments)

    (function,) = functions.values()
    assert function["changed"] and function["checked"] == "all"
    assert (function["states"], function["undecided"]) == (24, 0)
    assert function["instructions_run_percent"] > 90


@pytest.mark.long
def test_what_random_registers_do_not_decide_is_counted(mavcg: Any, here: Path) -> None:
    functions, _ = tuned(mavcg, here, AXPY)

    found = functions["axpy"]
    assert found["checked"] == "some" and found["states"] + found["undecided"] == 24 and found["undecided"] > 4


def test_an_undecided_function_stays_as_it_was_and_the_others_are_written(mavcg: Any, here: Path) -> None:
    functions, said = tuned(mavcg, here, CALLS + AXPY, "--args", "axpy: i:64 buf:256 buf:256")

    assert functions["axpy"]["changed"] and functions["axpy"]["checked"] == "all"
    assert not functions["calls"]["changed"] and functions["calls"]["checked"] == "none"
    assert "it calls 'elsewhere'" in functions["calls"]["kept"] and functions["calls"]["undecided"] == 24
    assert "calls is not decided (it calls 'elsewhere', which is not in the file): left as it was" in said
    text = (here / "out.S").read_text()
    assert CALLS in text and AXPY not in text


def test_unchecked_ok_writes_it_and_names_it(mavcg: Any, here: Path) -> None:
    functions, said = tuned(mavcg, here, CALLS, "--unchecked-ok")

    assert functions["calls"]["changed"] and functions["calls"]["checked"] == "none"
    assert "calls is not decided" in said and "taken unchecked" in said
    assert CALLS not in (here / "out.S").read_text()


def test_the_check_alone_writes_nothing(mavcg: Any, here: Path) -> None:
    """As scripts call it."""
    (here / "F.S").write_text("\t.text\n" + IGEMM)
    done = mavcg("tune-asm", "F.S", "--core", "cortex-a55", "--check", "--args", IGEMM_ARGS, "--json")

    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    (found,) = document["functions"]
    assert (found["checked"], found["states"], found["undecided"]) == ("all", 24, 0) and document["output"] is None
    assert [path.name for path in here.iterdir() if path.suffix] == ["F.S"]
    done = mavcg("tune-asm", "F.S", "--core", "cortex-a55")
    assert done.status == 2 and "give -o OUT.S, or --check" in " ".join(done.stderr.split())


def test_several_functions_and_several_descriptions_of_one(mavcg: Any, here: Path) -> None:
    axpys = ["--args", "axpy: i:4 buf:16 buf:16", "--args", f"axpy: i:0 buf:4 buf:4; {GEMM_ARGS}"]
    functions, _ = tuned(mavcg, here, GEMM + AXPY, *axpys)

    assert {name: f["checked"] for name, f in functions.items()} == {"gemm": "all", "axpy": "all"}


def test_data_from_elsewhere_does_not_hinder_the_check(mavcg: Any, here: Path) -> None:
    text = AXPY.replace("\tcbz", "\tadrp x9, scale\n\tldr s0, [x9, :lo12:scale]\n\tcbz")
    functions, _ = tuned(mavcg, here, text, "--args", "axpy: i:64 buf:256 buf:256")

    assert functions["axpy"]["checked"] == "all"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("axpy buf:4096", "begins with no function"),
        ("buf:4096 i:3", "begins with no function"),
        ("axpy:", "has no arguments for axpy"),
        ("axpy: 64", "'64' is not an argument; give buf:BYTES[+OFFSET], ptrs:COUNTxBYTES"),
        ("axpy: buf:many", "'buf:many' is not an argument"),
        ("axpy: buf:16=7", "'buf:16=7' is not an argument"),
        ("axpy: buf:0", "'buf:0': needs 1 byte or more"),
        ("axpy: ptrs:8", "'ptrs:8' is not an argument"),
        ("axpy: ptrs:0x16", "'ptrs:0x16' is not an argument"),
        ("axpy: ptrs:9999x16", "1 to 4096 pointers"),
        ("axpy: i:1.5", "'i:1.5' is not an argument"),
        ("axpy: i:1..9/0", "'i:1..9/0': not within"),
        ("axpy: i:9..1", "'i:9..1': not within 64 bits, or from more to less"),
        ("axpy: f:1e99", "'f:1e99' is not an argument"),
        ("axpy: buf:99999999", "bytes of buffers, and a check takes 4194304"),
        ("saxpy: i:1", "--args saxpy: k.S has no such function; did you mean axpy?"),
    ],
)
def test_a_wrong_description_is_an_error_that_shows_it(mavcg: Any, here: Path, arguments: str, said: str) -> None:
    _, message = tuned(mavcg, here, AXPY, "--args", arguments, status=2)

    assert said in " ".join(message.split()) and not (here / "out.S").exists()


def test_descriptions_need_the_check(mavcg: Any, here: Path) -> None:
    (here / "k.S").write_text(AXPY)
    done = mavcg("tune-asm", "k.S", "--core", "cortex-a55", "-o", "out.S", "--args", "axpy: i:1")

    assert done.status == 2 and "give --check too" in done.stderr
