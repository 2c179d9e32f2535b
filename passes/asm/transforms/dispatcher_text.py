"""Writes the dispatcher of an assembly function: AArch64 text that preserves every argument.

    f:    x16 = CPU number, from the thread's rseq area         (f.slow where the thread has none)
          x16 = core_of_cpu[x16]
          x16 = f.versions[x16]
          br x16

passes/ir/dispatch.py writes dispatchers of functions with a prototype. Here the arguments are unknown, so that the code
changes only x16 and x17, which any call may change (AAPCS64, "Use of IP0 and IP1 by the linker"), and no flags.
"""

from collections.abc import Sequence

from mavcg.passes.asm.isa.source import quote_symbol
from mavcg.passes.ir.dispatch import RuntimeNames

_GENERAL_BYTES, _FRAME_BYTES = 128, 128 + 512  # x0 to x15, then q0 to q31


def dispatcher_text(
    name: str, targets: Sequence[str], runtime: RuntimeNames, weak: bool = False, visibility: str = ""
) -> str:
    """Return assembly that defines `name` and its tables (runtime/csrc/mavcg_runtime.h), for the end of a file.

    targets: symbols of the versions for core ids 1, 2, ... weak: True if `name` is a weak symbol. visibility: the
    symbol's, such as "hidden"; "" for the default.
    """
    part = {suffix: f"{name}.{suffix}" for suffix in ("slow", "versions", "runs", "function", "name")}
    count = len(targets) + 1
    seen = f"\t.{visibility} {quote_symbol(name)}\n" if visibility else ""
    entries = "".join(f"\t.xword {quote_symbol(symbol)}\n" for symbol in (part["slow"], *targets))
    return (
        f"\t.text\n\t.{'weak' if weak else 'globl'} {quote_symbol(name)}\n{seen}"
        + _function(name, _fast(part, runtime) if runtime.has_rseq else f"\tb {quote_symbol(part['slow'])}\n")
        + _function(part["slow"], _slow(part, runtime))
        + _object(part["name"], '.rodata,"a",@progbits', f'\t.asciz "{name}"\n', 0)
        + _object(part["versions"], '.data.rel.ro,"aw",@progbits', entries, 3)
        + _object(part["runs"], '.bss,"aw",@nobits', f"\t.zero {8 * count}\n", 3)
        + _object(
            part["function"],
            '.data,"aw",@progbits',
            "".join(f"\t.xword {quote_symbol(part[s])}\n" for s in ("name", "versions", "runs")) + "\t.xword 0\n",
            3,
        )
    )


def _function(symbol: str, code: str) -> str:
    shown = quote_symbol(symbol)
    return (
        f"\t.p2align 4\n\t.type {shown}, %function\n{shown}:\n\t.cfi_startproc\n{code}\t.cfi_endproc\n"
        f"\t.size {shown}, .-{shown}\n"
    )


def _object(symbol: str, section: str, content: str, align: int) -> str:
    shown = quote_symbol(symbol)
    return (
        f"\t.section {section}\n\t.p2align {align}\n\t.type {shown}, %object\n"
        f"{shown}:\n{content}\t.size {shown}, .-{shown}\n"
    )


def _address(register: str, symbol: str) -> str:
    return f"\tadrp {register}, {quote_symbol(symbol)}\n\tadd {register}, {register}, :lo12:{quote_symbol(symbol)}\n"


def _fast(part: dict[str, str], runtime: RuntimeNames) -> str:
    slow = quote_symbol(part["slow"])
    assert runtime.table_size & (runtime.table_size - 1) == 0
    bits = runtime.table_size.bit_length() - 1
    # struct rseq (linux/rseq.h): cpu_id is the second 32-bit field; negative, so large, in an unregistered thread.
    return (
        "\thint #34 // bti c\n"
        f"\tadrp x16, {runtime.rseq_offset}\n"
        f"\tldr x16, [x16, :lo12:{runtime.rseq_offset}]\n"
        f"\tcbz x16, {slow}\n"
        "\tmrs x17, tpidr_el0\n"
        "\tadd x16, x16, x17\n"
        "\tldr w16, [x16, #4]\n"
        f"\tlsr w17, w16, #{bits}\n"
        f"\tcbnz w17, {slow}\n"
        f"{_address('x17', runtime.core_of_cpu)}"
        "\tldrb w16, [x17, x16]\n"
        f"{_address('x17', part['versions'])}"
        "\tldr x16, [x17, x16, lsl #3]\n"
        "\tbr x16\n"
    )


def _slow(part: dict[str, str], runtime: RuntimeNames) -> str:
    pairs = [f"x{n}, x{n + 1}, [sp, #{8 * n}]" for n in range(0, 16, 2)]
    pairs += [f"q{n}, q{n + 1}, [sp, #{_GENERAL_BYTES + 16 * n}]" for n in range(0, 32, 2)]
    return (
        "\thint #25 // paciasp, a landing pad too\n"
        "\t.cfi_negate_ra_state\n"
        "\tstp x29, x30, [sp, #-16]!\n"
        "\t.cfi_def_cfa_offset 16\n\t.cfi_offset w29, -16\n\t.cfi_offset w30, -8\n"
        "\tmov x29, sp\n"
        "\t.cfi_def_cfa w29, 16\n"
        f"\tsub sp, sp, #{_FRAME_BYTES}\n"
        + "".join(f"\tstp {pair}\n" for pair in pairs)
        + _address("x0", part["function"])
        + f"\tbl {runtime.select}\n"
        "\tmov x16, x0\n" + "".join(f"\tldp {pair}\n" for pair in pairs) + "\tmov sp, x29\n"
        "\t.cfi_def_cfa wsp, 16\n"
        "\tldp x29, x30, [sp], #16\n"
        "\t.cfi_def_cfa_offset 0\n\t.cfi_restore w29\n\t.cfi_restore w30\n"
        "\thint #29 // autiasp\n"
        "\t.cfi_negate_ra_state\n"
        "\tbr x16\n"
    )
