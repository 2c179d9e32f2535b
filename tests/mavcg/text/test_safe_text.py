"""Whatever names are, the texts that they stand in keep their tokens; each text is read by rules that are not ours."""

import io
import os
import re
import shlex
import shutil
import subprocess
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mavcg.accelerators.plans.text.c_backend import plan_c
from mavcg.accelerators.plans.text.emit import emit_plan
from mavcg.accelerators.plans.text.parser import parse_plans
from mavcg.accelerators.plans.text.printer import print_plan
from mavcg.assembly.schedule_picture import as_svg
from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling
from mavcg.graph import TensorType
from mavcg.hardware.accelerator import Accelerator, MemoryLevel
from mavcg.hardware.core import Core, Midr
from mavcg.hardware.timing import ClassTiming, Timing
from mavcg.passes.asm.isa.op import Op, RegisterRead
from mavcg.passes.asm.models.estimate import estimate_loop
from mavcg.runtime.companions import cmake_text, pkg_config_text
from mavcg.runtime.coreset import CoreSet, table_text
from mavcg.runtime.model_header import api_name, header_text
from mavcg.runtime.model_text import tables_text
from mavcg.specs.model_program import OperandAddress, Program, ProgramStep, ProgramTensor, ThreadPlan
from mavcg.text.safe_text import (
    assembly_symbol,
    c_identifier,
    c_string,
    comment,
    is_assembly_symbol,
    plot_label,
    printable,
    toml_string,
    xml_attribute,
    xml_text,
)
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import run_zig
from tests.conftest import examples
from tests.mavcg.foreign_names import EXPLOIT, NAMES, c_tokens

F32 = TensorType("f32", (2, 3))
CORE_NAMES = NAMES.filter(lambda name: name not in ("generic", "other") and not re.search("[\ud800-\udfff]", name))


def _program(model: str, tensor: str, step: str, core: str) -> Program:
    places = (OperandAddress("input"), OperandAddress("arena", 8), OperandAddress("output"))
    steps = (ProgramStep(step, step, "k_1", places, 6, 4, 6, ((core, 2), ("other", 3))),)
    plans = (ThreadPlan((core,), 1, 1.0), ThreadPlan((core, "other"), 2, 0.5))
    tensors = (ProgramTensor(tensor, F32),), (ProgramTensor(f"{tensor} 2", F32),)
    return replace(Program(model, *tensors, steps, 64, 0, 0, 64), thread_plans=plans)


def _cores(name: str) -> CoreSet:
    made = [
        Core(each, "aarch64", "in", "cortex-a55", each, midr=(Midr(0x41, 0xD05 + i),))
        for i, each in enumerate((name, "other"))
    ]
    return CoreSet(tuple(made))


def _untagged(text: str, cores: CoreSet) -> str:
    return text.replace(cores.tag, "TAG")


@example(EXPLOIT, EXPLOIT)
@given(NAMES, NAMES)
def test_a_header_has_the_same_tokens(model: str, tensor: str) -> None:
    hostile, harmless = (header_text(_program(*names, "s", "c")) for names in ((model, tensor), (api_name(model), "t")))

    for trigraphs in (False, True):
        assert c_tokens(hostile, trigraphs) == c_tokens(harmless, trigraphs)


@example(EXPLOIT, EXPLOIT, EXPLOIT, EXPLOIT)
@given(NAMES, NAMES, NAMES, CORE_NAMES)
def test_tables_have_the_same_tokens(model: str, tensor: str, step: str, core: str) -> None:
    texts = []
    for names in ((model, tensor, step, core), (api_name(model), "t", "s", "c")):
        cores = _cores(names[3])
        versions = {"k_1": ("k_1.generic", f"k_1.{names[3]}", "k_1.other")}
        texts.append(_untagged(tables_text(_program(*names), cores, versions) + table_text(cores, {}), cores))

    for trigraphs in (False, True):
        assert c_tokens(texts[0], trigraphs) == c_tokens(texts[1], trigraphs)


def test_a_compiler_sees_no_code_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "use.c").write_text(header_text(_program("m", EXPLOIT, "s", "c")))
    command = ["-target", host_target().zig_name, "-Wall", "-Wextra", "-Werror", "-E", "-P", str(tmp_path / "use.c")]

    seen = run_zig("cc", command, "preprocessing the header")
    assert "mavcg_tensor" in seen and "constructor" not in seen


@given(NAMES)
def test_a_string_of_c_is_the_name(name: str) -> None:
    text = c_string(name)
    data = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), text[1:-1].encode("ascii"))

    assert c_tokens(text) == ['""'] and "?" not in text
    assert data.decode("utf-8", "surrogateescape") == name or not name.isprintable()


_ACCELERATOR = Accelerator("a", 1.0, (MemoryLevel("m", 1.0, shared_bytes=1 << 16),), (1, 1), (("OC",), ("IC",)))


@given(NAMES)
def test_plans_as_c_and_as_text_keep_their_tokens(name: str) -> None:
    layer = ConvLayer("", oc=2, ic=2, oh=4, ow=4, kh=3, kw=3, ih=6, iw=6)
    plan = emit_plan(layer, Tiling(Tile(2, 2, 4, 4, 3, 3), Dataflow.OUTPUT), _ACCELERATOR)

    for trigraphs in (False, True):
        assert c_tokens(plan_c(replace(plan, name=name)), trigraphs) == c_tokens(plan_c(plan), trigraphs)
    if name and not re.search("[\ud800-\udfff]", name):
        (back,) = parse_plans(print_plan(replace(plan, name=name)))
        assert back.name == name and len(back.commands) == len(plan.commands)


def _pkg_config(text: str) -> dict[str, str]:
    """The fields of a .pc file; a line that is no field is a fault."""
    fields = {}
    for line in text.removesuffix("\n").split("\n"):
        match = re.fullmatch(r"([A-Z][a-z]+): ((?:[^#\\\r\v\f]|\\.)*)", line)
        assert match, line
        fields[match[1]] = match[2]
    return fields


@given(NAMES, NAMES.map(lambda name: name.replace("/", "").replace("\0", "")))
def test_pkg_config_has_the_same_fields(model: str, stem: str) -> None:
    program = _program(model, "t", "s", "c")
    fields = _pkg_config(pkg_config_text(stem, program, Path(f"lib{stem}.so")))

    assert list(fields) == ["Name", "Description", "Version", "Cflags", "Libs"]
    assert not re.search(r"[$\\]", fields["Name"] + fields["Description"])
    folder, library = shlex.split(fields["Libs"])
    assert folder == "-L${pcfiledir}"
    assert library == f"-l{stem}" or not stem.isprintable()


_CMAKE = re.compile(r'"((?:[^"\\]|\\.)*)"|#[^\n]*|([()])|([^\s()#"\\]+)|\s+', re.DOTALL)


def _cmake_arguments(text: str) -> list[str]:
    """Words, parentheses and quoted arguments, these without their escapes (cmake-language(7))."""
    found, at = [], 0
    while at < len(text):
        match = _CMAKE.match(text, at)
        assert match, text[at:]
        at = match.end()
        if match[1] is not None:
            variables = re.sub(r"\\.", "", match[1], flags=re.DOTALL)
            assert variables.count("$") == variables.count("${CMAKE_CURRENT_LIST_DIR}")
            assert ";" not in variables
            found.append(re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL))
        elif match[2] or match[3]:
            found.append(match[0])
    return found


@given(NAMES.map(lambda name: name.replace("/", "").replace("\0", "")))
def test_cmake_has_the_same_arguments(stem: str) -> None:
    hostile, harmless = (_cmake_arguments(cmake_text(name, Path(f"lib{name}.so"))) for name in (stem, "s"))

    assert len(hostile) == len(harmless)
    assert f"${{CMAKE_CURRENT_LIST_DIR}}/lib{stem}.so" in hostile and f"lib{stem}.so" in hostile
    assert all(re.fullmatch(r"mavcg::[0-9A-Za-z_.+-]*", word) for word in hostile if word.startswith("mavcg::"))


def test_cmake_and_pkg_config_find_a_library_of_any_name(tmp_path: Path) -> None:
    if not shutil.which("pkg-config") or not shutil.which("cmake"):
        pytest.skip("pkg-config or cmake is not installed")
    stem = "a b$c#d%e'f\\g"
    output = tmp_path / f"lib{stem}.so"
    output.touch()
    (tmp_path / "plain.pc").write_text(pkg_config_text(stem, _program("x", "t", "s", "c"), output))
    (tmp_path / "x.cmake").write_text(
        cmake_text(stem, output)
        + 'get_target_property(where mavcg::a_b_c_d_e_f_g IMPORTED_LOCATION)\nfile(WRITE found "${where}")\n'
    )

    environment = os.environ | {"PKG_CONFIG_PATH": str(tmp_path)}
    command = ["pkg-config", "--libs", "plain"]
    flags = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    assert shlex.split(flags)[-1] == f"-l{stem}"
    project = "cmake_minimum_required(VERSION 3.10)\nproject(p NONE)\nset_property(GLOBAL PROPERTY "
    project += "TARGET_SUPPORTS_SHARED_LIBS TRUE)\ninclude(x.cmake)\n"
    (tmp_path / "CMakeLists.txt").write_text(project)
    subprocess.run(["cmake", "-S", ".", "-B", "b"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    assert Path((tmp_path / "found").read_text()).name == output.name


_LOAD = Op("ldr d0, [x0]", "ldr_d", (RegisterRead("x0", "addr"),), ("v0",))
_CORE = Timing("c", "in", 2, {}, {"ldr_d": ClassTiming("ldr_d", 3, 1.0)})


@given(NAMES, NAMES)
def test_pictures_have_the_same_elements(title: str, text: str) -> None:
    harmless, hostile = (
        ET.fromstring(as_svg(estimate_loop([replace(_LOAD, text=op)], _CORE), name).encode("utf-8", "strict"))
        for name, op in (("t", "o"), (title, text))
    )
    assert [e.tag for e in hostile.iter()] == [e.tag for e in harmless.iter()]
    assert all(e.attrib.keys() == f.attrib.keys() for e, f in zip(hostile.iter(), harmless.iter(), strict=True))


@given(NAMES)
def test_xml_is_the_name(name: str) -> None:
    root = ET.fromstring(f"<a b={xml_attribute(name)}>{xml_text(name)}</a>".encode())

    if not re.search(r"[^\x20-\x7e]", name):
        assert (root.text or "") == root.attrib["b"] == name


@pytest.mark.filterwarnings("ignore:Glyph")
@settings(max_examples=examples(20, 4))
@given(NAMES)
def test_a_plot_shows_the_name(name: str) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figure, drawn = Figure(figsize=(1, 1)), io.BytesIO()
    figure.text(0, 0, plot_label(name))
    figure.savefig(drawn, format="svg")
    root = ET.fromstring(drawn.getvalue())
    assert root.tag.endswith("svg")


@given(NAMES)
def test_an_assembly_symbol_is_one_word(name: str) -> None:
    symbol = assembly_symbol(name)

    assert re.fullmatch(r'[\w.$]+|"[^"\\\x00-\x1f]*"', symbol)
    assert not is_assembly_symbol(name) or symbol.strip('"') == name


@given(NAMES)
def test_an_identifier_is_one(name: str) -> None:
    assert re.fullmatch(r"[0-9A-Za-z_]+", c_identifier(name, "x"))
    assert re.fullmatch(r"[A-Za-z_][0-9A-Za-z_]*", api_name(name))


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b2J", "\\x9b2J"),
        ("\r", "\\r"),
        ("\x08", "\\x08"),
        ("\x00", "\\x00"),
        ("\x7f", "\\x7f"),
        ("\u202e", "\\u202e"),
        ("\u2028", "\\u2028"),
        ("\ud800", "\\ud800"),
        ("\u200b", "\\u200b"),
    ],
)
def test_a_terminal_shows_escapes_and_obeys_none(raw: str, shown: str) -> None:
    assert printable(f"a{raw}b\n\té名") == f"a{shown}b\n\té名"


@given(st.text())
def test_text_that_may_be_printed_stays(text: str) -> None:
    kept: Callable[[str], bool] = lambda c: c.isprintable() or c in "\n\t"  # noqa: E731
    assert printable("".join(filter(kept, text))) == "".join(filter(kept, text))


@given(NAMES)
def test_a_comment_ends_no_line_and_no_comment(name: str) -> None:
    assert not re.search(r"""[^\x20-\x7e]|[*\\"'#$?`]""", comment(name))
    assert len(comment(name)) == len(name)


@given(NAMES)
def test_toml_reads_the_name(name: str) -> None:
    read = tomllib.loads(f"before = 1\nname = {toml_string(name)}\nafter = 2\n")
    assert read == {"before": 1, "name": re.sub("[\ud800-\udfff]", "\ufffd", name), "after": 2}
