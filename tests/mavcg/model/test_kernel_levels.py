"""Feature levels of model libraries: which are added, which kernels get code of their own, what the selector runs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.choose.lowering.lower import lower_graph
from mavcg.errors import MavcgError
from mavcg.graph import TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.extensions import hwcap_words
from mavcg.hardware.feature_levels import ALL_LEVELS, MODELLED_LEVELS, NO_LEVELS, parse_levels
from mavcg.kernels.builder.emit import kernel_name
from mavcg.model.kernel_levels import NewLevel, library_kernels, next_levels, with_new_levels
from mavcg.model.model_request import ModelRequest, code_context
from mavcg.profiles.load import load_cores
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.kernel_versions import needs_of_versions, versions_of
from mavcg.runtime.machines import machines_for, with_half
from mavcg.specs.kernel import KernelSpec, Packing
from mavcg.specs.tile_plan import TilePlan
from mavcg.toolchain.target import parse_target
from tests.runtime.offered_needs import ALL_BITS, asker, without

ARM, X86 = parse_target("aarch64-linux-musl"), parse_target("x86_64-linux-musl")
CORES = load_cores()
NOTHING = frozenset[str]()


def next_of(
    cores: tuple[Core, ...], needs: Mapping[str, frozenset[str]], levels: str = MODELLED_LEVELS
) -> list[tuple[str, set[str]]]:
    target = ARM if cores[0].arch == "aarch64" else X86
    added = next_levels(needs, cores, machines_for((), target)[GENERIC], target, levels)
    return [(level.core.name, set(level.kernels)) for level in added]


def needs_for(names: tuple[str, ...], by_kernel: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Needs of two kernels by version: those of these cores, and none of generic."""
    own = {f"{kernel}.{name}": needs for kernel, needs in by_kernel.items() for name in names}
    return {**{f"{kernel}.generic": NOTHING for kernel in by_kernel}, **own}


def test_a_level_is_added_where_the_library_needs_something_that_it_lacks() -> None:
    """An in-order core gets code; another core only where dot products are left. What can run is shared."""
    a55, m4 = CORES["cortex-a55"], CORES["exynos-m4"]
    plain = needs_for(("cortex-a55", "exynos-m4"), {"f": NOTHING, "q": NOTHING})
    dots = needs_for(("cortex-a55", "exynos-m4"), {"f": NOTHING, "q": frozenset({"dotprod"})})

    assert next_of((a55, m4), plain) == [] == next_of((a55, m4), dots, NO_LEVELS)
    assert next_of((a55, m4), dots) == [("cortex-a55-v81", {"q"}), ("exynos-m4-v81", set())]
    assert next_of((a55, m4), dots, ALL_LEVELS) == [("cortex-a55-v81", {"q"}), ("exynos-m4-v81", {"q"})]
    alone = needs_for(("exynos-m4",), {"q": frozenset({"dotprod"})})
    assert next_of((m4,), alone) == []  # all its kernels would be generic's


def test_levels_follow_one_another_down_to_what_no_level_lacks() -> None:
    x2 = CORES["cortex-x2"]
    needs = needs_for(("cortex-x2",), {"f": NOTHING, "q": frozenset({"i8mm"})})
    first = next_levels(needs, (x2,), machines_for((), ARM)[GENERIC], ARM, MODELLED_LEVELS)
    cores = with_new_levels((x2,), first)

    assert [(level.core.name, set(level.kernels)) for level in first] == [("cortex-x2-noi8mm", {"q"})]
    assert first[0].machine.dot_product and not first[0].machine.matrix_product
    needs["q.cortex-x2-noi8mm"] = frozenset({"dotprod"})
    assert next_of(cores, needs) == [("cortex-x2-v81", set())]
    a55 = CORES["cortex-a55"]
    assert [core.name for core in with_new_levels((x2, a55), first)] == ["cortex-x2", "cortex-x2-noi8mm", "cortex-a55"]
    assert next_of((*cores, replace(first[0].core, name="cortex-x2-v81", extensions=())), needs) == []


def test_kernels_with_tiles_have_code_for_a_system_that_permits_none() -> None:
    core = CORES["sapphirerapids"]
    needs = needs_for(("sapphirerapids",), {"f": frozenset({"avx512f"}), "q": frozenset({"amx-int8", "amx-tile"})})
    [noamx] = next_levels(needs, (core,), machines_for((), X86)[GENERIC], X86, MODELLED_LEVELS)

    assert noamx.core.name == "sapphirerapids-noamx" and noamx.kernels == {"q"}
    assert noamx.machine.dot_product and not noamx.machine.int8_tiles
    needs["q.sapphirerapids-noamx"] = frozenset({"avx512vnni"})
    ladder = CoreSet((core, noamx.core))
    assert versions_of("f", needs, ladder) == ("f.generic", "f.sapphirerapids", "f.sapphirerapids")
    assert versions_of("q", needs, ladder) == ("q.generic", "q.sapphirerapids", "q.sapphirerapids-noamx")
    assert needs_of_versions(needs, ladder)["sapphirerapids-noamx"] == ("avx512f", "avx512vnni")


def test_a_level_has_all_that_the_generic_version_uses() -> None:
    """A model in f16 is refused where halves are hidden, so it has no level without them."""
    a710 = CORES["cortex-a710"]
    half = with_half(machines_for((), ARM)[GENERIC])
    needs = needs_for(("cortex-a710",), {"f": frozenset({"fullfp16"}), "q": frozenset({"fullfp16", "i8mm"})})

    def added(cores: tuple[Core, ...]) -> tuple[NewLevel, ...]:
        return next_levels(needs, cores, half, ARM, ALL_LEVELS)

    [noi8mm] = added((a710,))
    assert noi8mm.core.name == "cortex-a710-noi8mm" and noi8mm.kernels == {"q"}
    needs["q.cortex-a710-noi8mm"] = frozenset({"fullfp16", "dotprod"})
    assert added((a710, noi8mm.core)) == ()


def test_levels_of_x86_64_are_for_avx2() -> None:
    server, rapids = CORES["icelake-server"], CORES["sapphirerapids"]
    vectors = frozenset({"avx512f", "avx512bw", "avx512vl"})
    names = ("icelake-server", "sapphirerapids")
    needs = needs_for(names, {"f": vectors, "q": vectors | {"avx512vnni"}, "copy": NOTHING})

    assert next_of((server, rapids), needs) == [("icelake-server-avx2", set()), ("sapphirerapids-avx2", {"q"})]
    everything = next_of((server, rapids), needs, ALL_LEVELS)
    assert everything == [("icelake-server-avx2", {"f", "q"}), ("sapphirerapids-avx2", {"f", "q"})]


def test_words_of_the_option() -> None:
    assert parse_levels(None) == MODELLED_LEVELS and parse_levels("one") == NO_LEVELS
    with pytest.raises(MavcgError, match="--versions two: is not one, modelled or all; give one of them"):
        parse_levels("two")


def eight_bit_specs() -> tuple[KernelSpec, ...]:
    """An 8-bit convolution of enough terms for products of matrices, and an f32 activation."""
    b = GraphBuilder("g")
    x = b.input("x", TensorType("i8", (1, 5, 7, 32)))
    arrays = np.ones((8, 1, 1, 32), np.int8), np.zeros(8, np.int32), np.full(8, 0.01, np.float32)
    result: dict[str, Any] = {"x_zero": 0, "out_zero": 0, "lo": -128, "hi": 127, "to": "i8"}
    outputs = [
        b.add("qconv2d", [x, *map(b.constant, arrays)], **result),
        b.add("relu", [b.input("r", TensorType("f32", (3, 4)))]),
    ]
    return lower_graph(b.finish(outputs), Packing(8, 8)).specs


@pytest.mark.long
def test_every_extension_of_every_shipped_core_hidden_in_turn(tmp_path: Path) -> None:
    """Kernels of all AArch64 cores: the version that runs needs only what is offered, and is the first such one."""
    cores = tuple(core for core in CORES.values() if core.arch == "aarch64" and core.midr)
    specs = eight_bit_specs()
    request = ModelRequest(Path("g.onnx"), tmp_path / "g.so", ARM, cores, levels=MODELLED_LEVELS)
    code, _ = library_kernels(specs, machines_for(cores, ARM), TilePlan(), code_context(request, tmp_path, print))
    needs = needs_of_versions(code.needs, code.core_set)
    core_set = code.core_set.with_needs(needs, private=True)
    ask = asker(core_set, tmp_path)
    questions = [(core, words) for core in cores for e in core.extensions if e != "lse2" for words in without(e, core)]
    questions += [(core, ALL_BITS) for core in cores]

    assert len(questions) > 400 and any(core.level_of for core in code.cores)
    hidden = 0
    for (core, offered), (by_midr, by_name) in zip(questions, ask(questions), strict=True):
        ladder = [level.name for level in code.cores if level.core_type == core.name]
        words = [(*hwcap_words(needs[name]), 0, 0, 0) for name in ladder]
        met = [all(w & o == w for w, o in zip(own, offered, strict=True)) for own in words]
        assert by_midr == by_name == core_set.id_of(ladder[met.index(True)]), (core.name, offered)
        hidden += met.index(True) > 0
    assert hidden > 20  # dot products, products of matrices
    convolution = next(kernel_name(spec) for spec in specs if kernel_name(spec).startswith("qconv"))
    run = dict(zip((GENERIC, *core_set.names), versions_of(convolution, code.needs, CoreSet(code.cores)), strict=True))
    assert run["cortex-a55-v81"].endswith(".cortex-a55-v81") and run["cortex-a76-v81"].endswith(".generic")
