"""Inputs of the targets that read binary files, built here: libraries, programs, databases, messages, arrays."""

import contextlib
import io
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

CODE = """\
\t.text
\t.globl f
\t.type f, %function
f:
\t.globl "f.cortex-a55"
\t.type "f.cortex-a55", %function
"f.cortex-a55":
\tadrp x8, :got:value
\tldr x0, [x8, :got_lo12:value]
\tfmla v0.4s, v1.4s, v2.4s
\tbl g
\tret
\t.size f, . - f
\t.bss
\t.globl value
value:
\t.zero 8
"""
X86_CODE = "\t.text\n\t.globl f\n\t.type f, @function\nf:\n\tvfmadd231ps %ymm0, %ymm1, %ymm2\n\tret\n\t.size f, . - f\n"
ROOM = {"room": "x" * 400}  # for mutations of notes that add something: images.py
NOTE = {
    "functions": [
        {
            "name": "f",
            "versions": [
                {"core": "generic", "version": "generic", "bytes": 20, "shares_body_with": None, "extensions": []},
                {"core": "cortex-a55", "version": "cortex-a55", "bytes": 20, "shares_body_with": None},
            ],
            "dropped": [{"core": "cortex-a76", "version": "cortex-a76", "why": "no gain"}],
        },
    ],
    "refused": {"h": "it has no body"},
    "runtime": {"x": 12},
    "single_bytes": 100,
    "multi_bytes": 140,
    "single_library_bytes": 300,
    **ROOM,
}
MODEL_NOTE = {
    "model": "a",
    "weight_bytes": 8,
    "code_bytes": 100,
    "arena_bytes": 64,
    "arena_lower_bound_bytes": 64,
    "scratch_bytes": 0,
    "versions": ["generic"],
    "extensions": {"generic": []},
    "inputs": [{"name": "x", "type": "f32[1,2]"}],
    "outputs": [{"name": "y", "type": "f32[1,2]"}],
    "operators": {"relu": 1},
    "steps": [],
    "kernels": {},
    **ROOM,
}
APPLICATION_NOTE = {"application": "app", "networks": [{"model": "a"}, {"model": "b"}], **ROOM}


def binary_corpora() -> Iterator[tuple[str, str, bytes]]:
    """Target, file name, bytes."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _libraries(Path(folder))
        yield from _databases(Path(folder))
    yield from _programs()
    yield from _messages()
    yield from _arrays()


def _libraries(folder: Path) -> Iterator[tuple[str, str, bytes]]:
    from mavcg.objects import inspection
    from mavcg.toolchain.target import parse_target
    from mavcg.toolchain.zig import run_zig

    kinds: tuple[tuple[str, str, str, dict[str, Any], tuple[str, ...]], ...] = (
        ("library", "aarch64-linux-gnu", CODE, NOTE, ("-shared", "-nostdlib", "-Wl,-z,max-page-size=4096")),
        ("object", "aarch64-linux-gnu", CODE, MODEL_NOTE, ("-c",)),
        ("x86_object", "x86_64-linux-gnu", X86_CODE, APPLICATION_NOTE, ("-c",)),
        ("macho_object", "aarch64-macos", "\t.text\n\t.globl _f\n_f:\n\tret\n", NOTE, ("-c",)),
    )
    for name, target_name, code, note, options in kinds:
        target = parse_target(target_name)
        source, made = folder / f"{name}.s", folder / name
        source.write_text(code + inspection.note_assembly(note, target))
        run_zig("cc", ["-target", target_name, *options, str(source), "-o", str(made)], "making a corpus")
        yield "library_file", name, made.read_bytes()


def _databases(folder: Path) -> Iterator[tuple[str, str, bytes]]:
    import json

    from fuzz.corpus_files import COSTS
    from mavcg.accelerators.costs.kept import GroupCostFile
    from mavcg.accelerators.explore.store import ExplorationStore
    from mavcg.accelerators.fusion.costs import GroupCost
    from mavcg.accelerators.groups import GroupTile
    from mavcg.choose.algorithms.costs.database_file import open_db

    (folder / "costs.json").write_text(json.dumps(COSTS))
    with open_db(folder / "costs") as costs:
        costs.import_file(folder / "costs.json")
    with GroupCostFile(folder / "groups") as groups:
        groups.put("simulated", [("key", GroupCost(7.0, GroupTile(1, 7, 8, 4))), ("no", None)])
    with ExplorationStore(folder / "exploration") as store:
        store.put_simulations({"key": (1, 2, 3.5)})
        store.put_predictions({"key": "[]"})
    for name in ("costs", "groups", "exploration"):
        with contextlib.closing(sqlite3.connect(folder / name)) as connection:
            connection.execute("PRAGMA page_size = 512")
            connection.execute("VACUUM")
        yield "cost_database", name, (folder / name).read_bytes()


def _programs() -> Iterator[tuple[str, str, bytes]]:
    from mavcg.accelerators.image.assembly import disassemble
    from mavcg.accelerators.image.elf_file import elf_bytes
    from tests.mavcg.accelerators.compiled import random_program, with_huge_windows

    for name, seed, mixed in (("whole", 10, False), ("with_cpu_nodes", 13, True)):
        compiled = random_program(seed, mixed)
        assert compiled is not None, seed
        yield "accel_program", name, elf_bytes(compiled[2])
        if not mixed:
            yield "accel_program", "huge_windows", elf_bytes(with_huge_windows(compiled[2]))
        if mixed:
            yield "accel_program", "assembly", "\n".join(disassemble(compiled[2])).encode()


def _messages() -> Iterator[tuple[str, str, bytes]]:
    from fuzz.targets.worker_answer import DIGEST
    from mavcg.accelerators.explore.simulations import SimulatedFigures
    from mavcg.accelerators.explore.tilings import TileTraffic
    from mavcg.lab.farm.library_tasks import Refusal
    from mavcg.lab.fleet.board_task import BoardAnswer
    from mavcg.lab.jobs.messages import pack_message
    from mavcg.lab.runners.bench_lines import Condition, JobFailed, JobTimes, Rounds
    from mavcg.lab.runners.facts import CpuFacts, MachineFacts

    rounds = Rounds(1.5, 0.25, 9, 5, 1)
    times = JobTimes(0, rounds, None, "00ff", Condition(2000, 41.5))
    board = BoardAnswer((times, JobFailed(1, "why")), "", ("x",), 1.5)
    cpu = CpuFacts(0, "cortex-a55", "midr", governor="x")
    facts = MachineFacts("aarch64", "Linux", "x", (cpu,), 1, 2, (("z", 4.5),))
    answers: tuple[Any, ...] = (
        (TileTraffic(1, 2, 3, (1, 2, 3), "weights"),),
        (SimulatedFigures(7, 8, 0.5),),
        ('[[{"cortex-a55": 2}, 2.5]]',),
        (Refusal("why"),),
        (b"\x7fELF object",),
        board,
        facts,
    )
    for number, answer in enumerate(answers):
        yield "worker_answer", f"task_{number}", bytes([number]) + pack_message(answer, request=DIGEST)
    yield "worker_answer", "fault", bytes([0]) + pack_message("why", request=DIGEST, fault="failed")


def _arrays() -> Iterator[tuple[str, str, bytes]]:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for name, save in (
        ("npy", lambda out: np.save(out, array)),
        ("npz", lambda out: np.savez(out, x=array)),
        ("packed", lambda out: np.savez_compressed(out, x=array, y=array)),
    ):
        out = io.BytesIO()
        save(out)  # type: ignore[no-untyped-call]
        yield "array_file", name, out.getvalue()
