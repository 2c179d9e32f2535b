"""Assembly among the sources of a build: what gets versions, what stays as it was and why, what goes wrong."""

import itertools
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from mavcg.assembly.argument_states import described_state, parse_arguments
from mavcg.assembly.code_image import read_image
from mavcg.assembly.equivalence import compare
from mavcg.assembly.tuning_options import FAST, Tuning
from mavcg.errors import MavcgError
from mavcg.objects.elf import function_symbols, undefined_symbols
from mavcg.objects.inspection import protection, symbol_bytes
from mavcg.profiles.load import cores_for
from mavcg.program.asm_module import read_asm_module
from mavcg.program.asm_objects import build_asm_objects
from mavcg.program.objects import ModuleObjects, ObjectOptions
from mavcg.program.sources.asm_unit import AsmUnit, asm_unit
from mavcg.program.version_choice import VersionLimits
from mavcg.runtime.coreset import CoreSet
from mavcg.toolchain.target import parse_target

ARM = parse_target("aarch64-linux-gnu.2.17")
DOT = """\
	.globl {name}
	.type {name}, %function
{name}:
	movi v0.4s, #0
{loop}:
	ldr q1, [x0], #16
	ldr q2, [x1], #16
	fmla v0.4s, v1.4s, v2.4s
	subs x2, x2, #1
	b.ne {loop}
	faddp v0.4s, v0.4s, v0.4s
	faddp s0, v0.2s
	ret
	.size {name}, .-{name}
"""


def dot(name: str, loop: str = ".Lloop") -> str:
    return DOT.format(name=name, loop=loop)


def built(
    folder: Path,
    text: str,
    *hot: str,
    cores: str = "cortex-a55,cortex-a76",
    limits: VersionLimits | None = None,
    tuning: Tuning = FAST,
) -> ModuleObjects:
    (folder / "k.s").write_text("\t.text\n" + text)
    module = read_asm_module(AsmUnit(folder / "k.s"), ARM)
    core_set = CoreSet(cores_for(cores.split(",")))
    return build_asm_objects(module, hot, tuning, ObjectOptions(core_set, ARM, folder, limits or VersionLimits()))


def symbols(made: ModuleObjects) -> dict[str, int]:
    return dict(function_symbols(made.objects[0]))


def test_versions_stand_beside_the_function_and_its_name_is_a_dispatchers(tmp_path: Path) -> None:
    made = built(tmp_path, dot("dot") + dot("cold", ".Lother"), "dot", "elsewhere")

    found = symbols(made)
    assert {"dot", "dot.slow", "dot.generic", "dot.cortex-a55", "cold"} == set(found)
    assert found["dot.generic"] == found["cold"] == symbol_bytes(made.single[0], "dot")
    (choice,) = made.choices
    assert made.dispatched and [kept.body for kept in choice.versions] == ["generic", "cortex-a55", "generic"]
    assert made.summary["functions"][0]["versions"][1]["model"]["loops_tuned"] == 1
    assert any(name.startswith("mavcg_select_") for name in undefined_symbols(made.objects[0]))


def test_functions_that_call_one_another_call_dispatchers(tmp_path: Path) -> None:
    caller = dot("caller", ".Lc").replace("\tmovi", "\tmov x15, x30\n\tbl dot\n\tmov x30, x15\n\tmovi")
    made = built(tmp_path, dot("dot") + caller, "dot", "caller")

    assert {"dot.cortex-a55", "caller.cortex-a55"} <= set(symbols(made)) and not made.refused
    assert "dot" not in undefined_symbols(made.objects[0])


def test_a_function_with_debug_labels_has_versions_and_its_debug_information_is_of_the_generic_one(
    tmp_path: Path,
) -> None:
    text = dot("dot").replace("\tldr q2", ".Ltmp0:\n\tldr q2").replace("\tret\n", "\tret\n.Lend:\n")
    debug = '\t.section .debug_info,"",@progbits\n\t.xword dot\n\t.word .Ltmp0-dot\n\t.word .Lend-dot\n\t.asciz "dot"\n'
    made = built(tmp_path, text + debug, "dot")

    assert {"dot", "dot.generic", "dot.cortex-a55"} <= set(symbols(made)) and not made.refused
    with made.objects[0].open("rb") as file:
        elf: Any = ELFFile(file)
        data = elf.get_section_by_name(".debug_info").data()
        (relocation,) = elf.get_section_by_name(".rela.debug_info").iter_relocations()
        symbol = elf.get_section_by_name(".symtab").get_symbol(relocation["r_info_sym"])
    assert symbol.name == "dot.generic" and relocation["r_offset"] == 0
    assert struct.unpack("<II", data[8:16]) == (8, symbol["st_size"]) and data[16:] == b"dot\0"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (dot("dot") + "\t.globl g\n\t.type g, %function\ng:\n\tb .Lloop\n", "names its label .Lloop from outside"),
        (dot("dot") + "\t.section .rodata\ntable:\n\t.word .Lloop - table\n", "names its label .Lloop from outside"),
        (dot("dot").replace("\tret\n", "") + "\t.globl g\ng:\n\tret\n", "several entry points"),
        (dot("dot").replace(".globl", ".local"), "it is local to its file"),
        (dot("dot").replace("\tmovi", "\ttbz x0, #1, near\n\tmovi"), "`tbz x0, #1, near` reaches 32 KiB"),
        ("\t.globl dot\n\t.type dot, %function\ndot:\n\tret\n\t.size dot, .-dot\n", "no loop of one block"),
    ],
)
def test_what_cannot_be_versioned_stays_as_it_was_and_says_why(tmp_path: Path, text: str, why: str) -> None:
    made = built(tmp_path, f"{text}\t.text\n{dot('fine', '.Lfine')}", "dot", "fine")

    assert why in made.refused["dot"] and set(made.refused) == {"dot"}
    assert symbols(made)["dot"] == symbol_bytes(made.single[0], "dot")
    assert [choice.function for choice in made.choices] == ["fine"] and "fine.cortex-a55" in symbols(made)


def test_a_function_whose_versions_do_not_assemble_stays_as_it_was(tmp_path: Path) -> None:
    text = dot("dot").replace("\tmovi", "\t.equiv ROWS, 4\n\tmovi")
    made = built(tmp_path, text + dot("fine", ".Lfine"), "dot", "fine")

    assert made.refused == {"dot": "its versions do not assemble: redefinition of 'ROWS'"} and made.dispatched
    assert {"dot", "fine", "fine.cortex-a55"} <= set(symbols(made))


def test_cores_that_no_pass_is_for_and_tuning_that_is_off_are_reasons(tmp_path: Path) -> None:
    made = built(tmp_path, dot("dot"), "dot", cores="cortex-a76,cortex-a78")
    assert made.refused == {"dot": "no machine pass is for cortex-a76, cortex-a78"} and not made.dispatched
    made = built(tmp_path, dot("dot"), "dot", tuning=Tuning(on=False))
    assert "--tune off" in made.refused["dot"] and set(symbols(made)) == {"dot"}


def test_a_file_that_expands_to_too_much_is_built_as_it_is(tmp_path: Path) -> None:
    made = built(tmp_path, dot("dot") + "\t.data\n\t.rept 70000\n\t.byte 1\n\t.endr\n", "dot")
    assert "k.s:17:1: expands to 70000 lines or more" in made.refused["dot"] and set(symbols(made)) == {"dot"}


def test_versions_of_a_file_that_is_marked_for_bti_have_landing_pads(tmp_path: Path) -> None:
    from mavcg.assembly.disassembly import CodeFile

    note = '\t.section .note.gnu.property,"a"\n\t.p2align 3\n\t.word 4, 16, 5\n\t.asciz "GNU"\n'
    made = built(tmp_path, f"{dot('dot')}{note}\t.word 0xc0000000, 4, 1, 0\n", "dot")

    assert protection(made.objects[0]) == ["BTI"]
    for symbol, pad in {"dot": "bti", "dot.generic": "bti", "dot.cortex-a55": "bti", "dot.slow": "paciasp"}.items():
        lines = CodeFile(made.objects[0]).disassemble([symbol]).text.splitlines()
        first = next(line.split()[0] for line in lines if line.startswith("\t") and not line.strip().startswith("."))
        assert first == pad, symbol


def test_growth_is_bounded(tmp_path: Path) -> None:
    made = built(tmp_path, dot("dot"), "dot", limits=VersionLimits(max_growth=1.0))

    (choice,) = made.choices
    assert choice.is_single and "growth" in choice.versions[1].dropped and set(symbols(made)) == {"dot"}


def test_visibility_and_weakness_are_the_dispatchers(tmp_path: Path) -> None:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    text = dot("dot").replace(".globl dot", ".weak dot\n\t.hidden dot")
    with built(tmp_path, text, "dot").objects[0].open("rb") as file:
        section = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(section, SymbolTableSection)
        table = {s.name: s for s in section.iter_symbols()}
    assert table["dot"]["st_info"]["bind"] == "STB_WEAK" and table["dot"]["st_other"]["visibility"] == "STV_HIDDEN"


def test_the_preprocessor_has_the_builds_definitions_and_folders(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc/loop.h").write_text("#define LOOP .Lnamed\n")
    (tmp_path / "k.S").write_text('#include "loop.h"\n\t.text\n' + dot("NAME", "LOOP"))
    unit = asm_unit(tmp_path / "k.S", ["-O3", "-DNAME=dot", "-I", "inc", "-mcpu=native"], tmp_path)

    module = read_asm_module(unit, ARM)
    assert module.function_names == ("dot",) and ".Lnamed:" in module.text
    made = build_asm_objects(module, ["dot"], FAST, ObjectOptions(CoreSet(cores_for(["cortex-a55"])), ARM, tmp_path))
    assert "dot.cortex-a55" in symbols(made)


def test_garbled_assembly_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "k.s").write_text("\t.text\nf:\n\tfnord x0\n")
    with pytest.raises(MavcgError, match=r"k\.s:3:2: unrecognized instruction"):
        read_asm_module(AsmUnit(tmp_path / "k.s"), ARM)


X86 = "\t.text\n\t.globl twice\n\t.type twice, @function\ntwice: # 2 x\n\tleal (%rdi,%rdi), %eax\n\tret\n"


def test_x86_assembly_is_kept_and_linked_and_that_is_said(mavcg: Any, here: Path) -> None:
    (here / "k.s").write_text(X86)
    (here / "c.c").write_text("int twice(int); int four(int x) { return twice(twice(x)); }\n")
    build = ("build", "--source", "k.s", "--source", "c.c", "--hot", "twice", "--cores", "haswell", "-o", "libk.so")
    done = mavcg(*build, "--target", "x86_64-linux-gnu.2.17", "--json")

    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["refused"] == [{"name": "twice", "source": "k.s", "why": "x86 assembly is not rescheduled"}]
    assert document["functions"] == []
    assert {"twice", "four"} <= {name for name, _ in function_symbols(here / "libk.so")}


def test_a_source_that_is_not_there_and_a_hot_name_that_nothing_defines(mavcg: Any, here: Path) -> None:
    done = mavcg("build", "--source", "no.S", "--hot", "f", "--cores", "cortex-a55", "-o", "libk.so")
    assert done.status == 2 and "no.S: is not there; name a C, C++ or assembly file" in done.stderr
    (here / "k.S").write_text("\t.text\n" + dot("dot"))
    done = mavcg("build", "--source", "k.S", "--hot", "dott", "--cores", "cortex-a55", "-o", "libk.so")
    assert done.status == 2 and "did you mean dot?" in " ".join(done.stderr.split())


def test_a_library_of_assembly_alone(mavcg: Any, here: Path) -> None:
    (here / "k.S").write_text("\t.text\n" + dot("dot"))
    done = mavcg("build", "--source", "k.S", "--hot", "d*", "--cores", "cortex-a55", "-o", "libk.so", "--json")

    assert done.status == 0, done.stderr
    (function,) = json.loads(done.stdout)["functions"]
    assert function["name"] == "dot" and [v["core"] for v in function["versions"]] == ["generic", "cortex-a55"]
    assert "dot.cortex-a55" in {name for name, _ in function_symbols(here / "libk.so")}
    said = " ".join(mavcg("inspect", "libk.so").stdout.split())
    assert "split+schedule" in said and "-mcpu" not in said  # no compiler had a say


def test_equal_builds_are_equal_bytes(tmp_path: Path) -> None:
    first, second = (built(tmp_path, dot("dot"), "dot").objects[0].read_bytes() for _ in range(2))
    assert first == second


def test_versions_do_what_generic_does(tmp_path: Path) -> None:
    """Executed from the same states, both out of the object that is linked."""
    pytest.importorskip("unicorn", reason="the check by execution needs mavcg[check]")
    (described,) = parse_arguments(["dot: buf:512 buf:512 i:1..32"])["dot"]
    made = built(tmp_path, dot("dot") + dot("again", ".Lagain"), "dot", "again", cores="cortex-a55,cortex-a53")
    image = read_image(made.objects[0], "k.s")

    for name, core in itertools.product(("dot", "again"), ("cortex-a55", "cortex-a53")):
        comparison = compare(
            image,
            image,
            f"{name}.generic",
            range(6),
            renamed=f"{name}.{core}",
            start=lambda seed: described_state(seed, described),
        )
        assert comparison.agreed == 6 and comparison.coverage > 0.7, f"{core}: {comparison}"
