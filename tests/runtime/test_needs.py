"""A version runs only where the kernel offers every extension that its instructions need."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mavcg.errors import MavcgError
from mavcg.hardware.core import Core
from mavcg.hardware.extensions import hwcap_words
from mavcg.hardware.feature_levels import lower_levels, top_level
from mavcg.profiles.load import load_cores
from mavcg.runtime.amalgamation import SOURCES, write_unit
from mavcg.runtime.build import linked_selector, runtime_object
from mavcg.runtime.coreset import GENERIC_ID, NEED_WORDS, CoreSet
from mavcg.runtime.needs import cpuid_words, needs_words
from mavcg.toolchain.target import parse_target
from mavcg.toolchain.zig import run_zig
from tests.machine import QEMU, needs_qemu
from tests.runtime.offered_needs import ALL_BITS, Words, asker, needs_of, without


@pytest.fixture(scope="module", params=["aarch64", "x86_64"])
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def ask(arch: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[tuple[int, int]]]:
    """ask(questions): the ids that the selector of all cores of `arch` chooses; a question is (core, words)."""
    cores = tuple(load_cores(arch).values())
    return asker(CoreSet(cores, tuple(map(needs_of, cores))), tmp_path_factory.mktemp("hidden"))


def words_of(core: Core) -> Words:
    return cpuid_words(needs_of(core)) if core.arch == "x86_64" else (*hwcap_words(needs_of(core)), 0, 0, 0)


def best(core: Core, cores: dict[str, Core], offered: Words) -> str:
    """The version that must run: the core's own, else its best stand-in's, whose needs are all met; else generic."""
    for name in (core.name, *core.stand_ins):
        words = words_of(cores[name])
        if not any(word & ~there for word, there in zip(words, offered, strict=True)):
            return name
        if not any(words):
            break
    return "generic"


def test_every_extension_of_every_shipped_core_hidden_in_turn(
    arch: str, ask: Callable[..., list[tuple[int, int]]]
) -> None:
    cores = load_cores(arch)
    ids = {name: number for number, name in enumerate(cores, 2)} | {"generic": GENERIC_ID}
    known = [core for core in cores.values() if core.midr or (core.x86_models and not core.x86_kind)]
    questions = [(core, words) for core in known for e in needs_of(core) for words in without(e, core)]
    answers = ask(questions)

    assert len(questions) > 400
    for (core, offered), (by_midr, by_name) in zip(questions, answers, strict=True):
        wanted = best(core, cores, offered)
        assert wanted != core.name
        assert by_midr == ids[wanted], (core.name, offered, wanted)
        # A map that names a core whose versions cannot run is refused: it never makes a CPU run one of them.
        assert by_name == (0 if wanted == "generic" else ids[wanted]), (core.name, offered, wanted)


def test_the_best_level_of_each_core_that_can_run_where_an_extension_is_hidden(tmp_path: Path) -> None:
    """Several versions of one core: the first whose needs are met, in the set's order; then the stand-ins' likewise."""
    cores = {name: core for name, core in load_cores("aarch64").items() if core.midr}
    ladders = {
        name: [level for level in (top_level(core), core, *lower_levels(core, core.extensions)) if level]
        for name, core in cores.items()
    }
    levels = [level for ladder in ladders.values() for level in ladder]
    core_set = CoreSet(tuple(levels), tuple(map(needs_of, levels)))
    ask = asker(core_set, tmp_path)
    ids = {name: number for number, name in enumerate(core_set.names, 2)}
    hidden = [(core, e) for core in cores.values() for e in needs_of(ladders[core.name][0])]
    questions = [(core, words) for core, extension in hidden for words in without(extension, core)]
    questions += [(core, words) for core in cores.values() for words in (ALL_BITS, (0,) * NEED_WORDS)]

    assert len(questions) > 600
    for (core, offered), (by_midr, by_name) in zip(questions, ask(questions), strict=True):
        met = [all(w & o == w for w, o in zip(words_of(k), offered, strict=True)) for k in ladders[core.name]]
        assert by_midr == by_name == ids[ladders[core.name][met.index(True)].name], (core.name, offered)


def test_every_core_runs_its_version_where_all_is_offered_and_nothing_where_nothing_is(
    arch: str,
    ask: Callable[..., list[tuple[int, int]]],
) -> None:
    cores = load_cores(arch)
    known = [core for core in cores.values() if core.midr or (core.x86_models and not core.x86_kind)]
    ids = {name: number for number, name in enumerate(cores, 2)} | {"generic": GENERIC_ID}

    assert [by_midr for by_midr, _ in ask([(core, ALL_BITS) for core in known])] == [ids[core.name] for core in known]
    bare = [by_midr for by_midr, _ in ask([(core, (0,) * NEED_WORDS) for core in known])]
    assert bare == [ids[core.name] if not needs_of(core) else GENERIC_ID for core in known]


def test_tables_with_other_needs_are_other_tables() -> None:
    """One table for each set of needs; a private table is named by its cores alone."""
    cores = tuple(load_cores("aarch64")[name] for name in ("cortex-a55", "cortex-a75"))
    plain = CoreSet(cores)
    needing = plain.with_needs({"cortex-a55": ["lse"]})

    assert len({plain.tag, needing.tag, plain.with_needs({"cortex-a75": ["lse"]}).tag}) == 3
    assert plain.with_needs({}) == plain and plain.with_needs({"cortex-a55": ["lse"]}, private=True).tag == plain.tag
    with pytest.raises(MavcgError, match="cores: 2 cores, and needs of 1"):
        CoreSet(cores, (("lse",),))
    with pytest.raises(MavcgError, match="extension lse2: has no bit"):
        needs_words(plain.with_needs({"cortex-a55": ["lse2"]}))
    haswell = CoreSet((load_cores()["haswell"],))
    assert needs_words(haswell) == {} and needs_words(haswell.with_needs({"haswell": ["bmi2"]}))["haswell"][1] == 1 << 8
    with pytest.raises(MavcgError, match='extension clzero: has no bit .* add "-clzero" to llvm_features of the core'):
        needs_words(haswell.with_needs({"haswell": ["clzero"]}))


@needs_qemu
@pytest.mark.parametrize("getauxval", ["getauxval", "no_such_function"])
def test_the_kernels_words_with_and_without_a_c_library_that_tells_them(tmp_path: Path, getauxval: str) -> None:
    """By getauxval, else from /proc/self/auxv; two tables of one program share the selector's code."""
    a55 = load_cores()["cortex-a55"]
    target = parse_target("aarch64-linux-musl")
    objects = []
    for number, needs in enumerate((("lse",), ("dotprod", "lse"))):
        core_set = CoreSet((a55,), (needs,))
        objects.append(runtime_object(core_set, {}, target, tmp_path, "linked_set"))
        source = tmp_path / f"which{number}.c"
        source.write_text(
            f'#include "mavcg_runtime.h"\nMAVCG_DECLARE({core_set.tag})\n'
            "static void *const versions[] = {(void *)0, (void *)1, (void *)2};\nstatic uint64_t runs[3];\n"
            'static struct mavcg_function f = {"f", versions, runs, 0};\n'
            f"int which{number}(void) {{ return (int)(uintptr_t)mavcg_select_{core_set.tag}(&f); }}\n"
        )
        objects.append(source)
    selector = tmp_path / "selector.c"
    if getauxval == "getauxval":
        objects.append(linked_selector(target, tmp_path))
    else:
        objects.append(write_unit("linked_selector", tmp_path).rename(selector))
    (tmp_path / "main.c").write_text(
        "#include <stdio.h>\nint which0(void), which1(void);\n"
        'int main(void) { printf("%d %d\\n", which0(), which1()); return 0; }\n'
    )
    flags = ["-target", target.zig_name, "-static", "-std=gnu11", "-O1", f"-I{SOURCES}", "-fno-sanitize=all"]
    words = [*flags, f"-Dgetauxval={getauxval}", str(tmp_path / "main.c"), *map(str, objects)]
    run_zig("cc", [*words, "-o", str(tmp_path / "app")], "building")

    def run(cpu: str) -> str:
        done = subprocess.run([str(QEMU), "-cpu", cpu, str(tmp_path / "app")], env={}, capture_output=True, text=True)
        return done.stdout + done.stderr

    assert run("max,midr=0x412fd050") == "2 2\n"
    assert run("cortex-a53,midr=0x412fd050") == "1 1\n"
