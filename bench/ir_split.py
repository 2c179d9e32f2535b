"""Compare load splitting in LLVM IR with the machine pass, by the models: `python -m bench.ir_split`.

Each kernel of bench/kernels has four forms for an in-order core: with whole loads, with loads split in IR, and
both through the machine passes. Then the instructions of the split loop are put into random orders in IR, to see how
much of an order LLVM's schedulers keep. Everything is modelled or counted: no Arm core ran anything.
"""

import random
import re
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from bench.asm_loops import TARGET, Loop, cycles, tuned
from bench.machine_passes import KERNELS, Kernel, main_loop_of
from bench.record import facts, write
from bench.records import ROOT
from mavcg.hardware.core import Core
from mavcg.passes.ir.module_text import parse_module
from mavcg.passes.ir.split_vector_loads import blocks_of, count_splits, innermost_blocks, split_vector_loads
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing
from mavcg.toolchain.codegen import canonical
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig

CORES = ("cortex-a53", "cortex-a55-r0", "cortex-a55")
ORDERS = 20
LOAD_WEIGHT = 0.03  # of a load that is ready beside other instructions: late, as a schedule would have it
# LLVM with neither scheduler: selection in the order of the IR, then as it is.
UNSCHEDULED = tuple(
    word
    for option in ("-pre-RA-sched=source", "-enable-misched=false", "-enable-post-misched=false")
    for word in ("-mllvm", option)
)
_VALUE = re.compile(r'%(?:"[^"]*"|[-a-zA-Z$._0-9]+)')
_PRODUCT_CALL = re.compile(r"call .*@llvm\.(fma|fmuladd|aarch64\.neon\.[su]dot)\.")
_MULTIPLY_ADD = re.compile(r"fmla|[su]dot")


def ir_of(kernel: Kernel, core: Core, folder: Path) -> str:
    """Return the optimised IR of a kernel for a core, just before code generation."""
    source, out = ROOT / "bench/kernels" / f"{kernel.function}.c", folder / "kernel.ll"
    run_zig("cc", [*_flags(core), *kernel.flags, "-S", "-emit-llvm", str(source), "-o", str(out)], kernel.name)
    return canonical(out.read_text())


def assembly_of(text: str, core: Core, folder: Path, options: Sequence[str] = ()) -> str:
    """Return the assembly that LLVM's code generation makes of optimised IR."""
    source, out = folder / "split.ll", folder / "split.s"
    source.write_text(text)
    flags = ["-Wno-override-module", "-Xclang", "-disable-llvm-passes", *options]
    run_zig("cc", [*_flags(core), *flags, "-S", str(source), "-o", str(out)], "generating code")
    return out.read_text()


def _flags(core: Core) -> list[str]:
    cpu = core.llvm_cpu.replace("-", "_") + ("" if "dotprod" in core.extensions else "+dotprod")
    return ["-target", TARGET, f"-mcpu={cpu}", "-O3", *PLAIN_CODE_FLAGS]


def four_forms(kernel: Kernel, name: str) -> dict[str, Any]:
    """Return the cycles of a kernel on a core with loads not split, split in IR, by the machine pass, and by both."""
    core = load_core(name)
    timing = load_timing(core)
    with tempfile.TemporaryDirectory() as folder:
        whole = ir_of(kernel, core, Path(folder))
        split = split_vector_loads(whole)
        texts = {form: assembly_of(text, core, Path(folder)) for form, text in (("none", whole), ("ir", split))}
    row: dict[str, Any] = {
        "kernel": kernel.name,
        "core": name,
        "can_run": kernel.needs in ("", *core.extensions),
        "splits_in_ir": count_splits(whole, split),
    }
    loops = {form: main_loop_of(text, kernel.function) for form, text in texts.items()}
    row |= {form: cycles(loop.instrs, timing) for form, loop in loops.items()}
    for form, after in (("none", "machine"), ("ir", "both")):
        report = tuned(texts[form], timing, core.policy).get((kernel.function, loops[form].label))
        row[after] = report.cycles_after if report and report.cycles_after is not None else row[form]
    assert loops["none"].work == loops["ir"].work, f"{kernel.name}: iterations of different lengths"
    row["work"] = max(loops["none"].work.flops, loops["none"].work.int_ops)
    row["whole_loads_left"] = sum(bool(re.match(r"ld[rp]\s+q", str(instr))) for instr in loops["ir"].instrs)
    return row


def random_order(text: str, draw: random.Random) -> tuple[str, float]:
    """Return IR with the innermost loop in a random order that dependences allow.

    The second result is the share of multiply-adds before the last part of a load. The loop has no store.
    """
    module = parse_module(_with_names(text))
    function = next(entity for entity in module.entities.values() if entity.kind == "define")
    lines = function.text.split("\n")
    inner = innermost_blocks(blocks_of(lines[1:]))
    block = max((b for b in blocks_of(lines[1:]) if b.label in inner), key=lambda b: b.end - b.first)
    body = [line for line in lines[1:][block.first + 1 : block.end] if line.strip()]
    fixed = sum(" = phi " in line for line in body)
    pending = {line.split(" = ")[0].strip(): line for line in body[fixed:-1]}
    assert len(pending) == len(body) - fixed - 1, "an instruction without a value, such as a store"
    order: list[str] = []
    while pending:
        ready = [name for name, line in pending.items() if not set(_VALUE.findall(line)[1:]) & pending.keys()]
        weights = [LOAD_WEIGHT if " = load " in pending[name] else 1.0 for name in ready]
        order.append(pending.pop(draw.choices(ready, weights)[0]))
    new = [*lines[: block.first + 2], *body[:fixed], *order, body[-1], "", *lines[block.end + 1 :]]
    loads = [number for number, line in enumerate(order) if " = load " in line]
    products = [number for number, line in enumerate(order) if _PRODUCT_CALL.search(line)]
    return str(module).replace(function.text, "\n".join(new)), sum(n < loads[-1] for n in products) / len(products)


def _with_names(text: str) -> str:
    """Return IR whose numbered values and labels have names, because LLVM requires numbers in order."""
    header = next(line for line in text.split("\n") if line.startswith("define "))
    entry = 1 + max(int(number) for number in re.findall(r"%(\d+)\b", header))
    text = text.replace(header, f"{header}\n{entry}:", 1)
    return re.sub(r"(?m)^(\d+):", r"n\1:", re.sub(r"%(\d+)\b", r"%n\1", text))


def products_before_last_load(loop: Loop) -> float:
    """Return the share of a loop's multiply-adds that precede its last load."""
    words = [instr.mnemonic for instr in loop.instrs]
    last = max(number for number, word in enumerate(words) if word.startswith("ld"))
    products = [number for number, word in enumerate(words) if _MULTIPLY_ADD.fullmatch(word)]
    return sum(number < last for number in products) / len(products)


def orders(kernel: Kernel, name: str) -> dict[str, Any]:
    """Return count and cycles of the distinct loops that LLVM makes of random orders of a kernel's split loop."""
    core = load_core(name)
    timing, draw = load_timing(core), random.Random(f"{kernel.name} on {name}")
    row: dict[str, Any] = {"kernel": kernel.name, "core": name, "orders": ORDERS}
    with tempfile.TemporaryDirectory() as folder:
        split = canonical(split_vector_loads(ir_of(kernel, core, Path(folder))))
        drawn = [random_order(split, draw) for _ in range(ORDERS)]
        row["before_last_load_in_ir"] = round(sum(part for _, part in drawn) / ORDERS, 3)
        for form, options in (("scheduled", ()), ("unscheduled", UNSCHEDULED)):
            loops = [main_loop_of(assembly_of(text, core, Path(folder), options), kernel.function) for text, _ in drawn]
            loop_cycles = [cycles(loop.instrs, timing) for loop in loops]
            row[form] = {
                "before_last_load": round(sum(map(products_before_last_load, loops)) / ORDERS, 3),
                "sequences": len({tuple(instr.mnemonic for instr in loop.instrs) for loop in loops}),
                "least_cycles": min(loop_cycles),
                "most_cycles": max(loop_cycles),
            }
    return row


def main() -> None:
    """Model and write bench/results/ir_split.json."""
    record: dict[str, Any] = facts("modelled", "bench.ir_split")
    with ThreadPoolExecutor(2) as pool:
        forms = list(pool.map(lambda pair: four_forms(*pair), [(k, core) for k in KERNELS for core in CORES]))
        kept = list(pool.map(lambda k: orders(k, "cortex-a55"), [k for k in KERNELS if k.flags or "plain" in k.name]))
    record |= {
        "target": TARGET,
        "kernels": forms,
        "speed_over_none": {
            core: {
                form: round(geometric_mean(r["none"] / r[form] for r in forms if r["core"] == core and r["can_run"]), 3)
                for form in ("ir", "machine", "both")
            }
            for core in CORES
        },
        "orders": kept,
    }
    print(write("ir_split", record))


if __name__ == "__main__":
    main()
