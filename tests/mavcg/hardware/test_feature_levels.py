"""Feature levels: each has less than the one above it, none is recognised by itself."""

import pytest

from mavcg.hardware.feature_levels import lower_levels, top_level
from mavcg.profiles.load import load_core, load_cores
from mavcg.runtime.needs import compiler_extensions, kernel_usable_extensions, usable_extensions


def test_the_levels_of_a_core_with_all_of_them() -> None:
    core = load_core("cortex-a710")
    noi8mm, v81, base = lower_levels(core, core.extensions)
    top = top_level(core)

    assert top is not None and top.name == "cortex-a710-sve2"
    assert [k.name for k in (noi8mm, v81, base)] == ["cortex-a710-noi8mm", "cortex-a710-v81", "cortex-a710-base"]
    assert set(top.extensions) - set(core.extensions) == {"sve", "sve2", "sve-bitperm"}
    assert set(core.extensions) - set(noi8mm.extensions) == {"bf16", "i8mm"}
    assert set(v81.extensions) == {"crc", "lse", "rdm"} and base.extensions == ()
    assert "-sve" not in top.llvm_features and "-sve" in base.llvm_features and "-lse" in base.llvm_features
    assert not top.policy.schedule and base.policy == core.policy


@pytest.mark.parametrize("name", [name for name, core in load_cores().items() if core.arch == "aarch64"])
def test_every_level_has_less_than_the_one_above_it(name: str) -> None:
    core = load_core(name)
    top = top_level(core)
    ladder = [*([top] if top else []), core, *lower_levels(core, core.extensions)]

    assert all(set(low.extensions) < set(high.extensions) for high, low in zip(ladder, ladder[1:], strict=False))
    assert ladder[-1].extensions == () and {level.core_type for level in ladder} == {name}
    assert not any(level.midr or level.stand_ins for level in ladder if level.level_of)


def test_levels_of_x86_go_by_what_the_compiler_may_use() -> None:
    core = load_core("icelake-server")
    avx2, base = lower_levels(core, compiler_extensions(core.llvm_cpu, core.llvm_features))
    left = compiler_extensions(avx2.llvm_cpu, avx2.llvm_features)

    assert (avx2.name, base.name) == ("icelake-server-avx2", "icelake-server-base") and "avx2" in left
    assert not any(extension.startswith("avx512") for extension in (*left, *avx2.extensions))
    assert base.extensions == () and {"-avx", "-bmi2", "-popcnt"} < set(base.llvm_features)
    haswell = load_core("haswell")
    levels = lower_levels(haswell, compiler_extensions(haswell.llvm_cpu, haswell.llvm_features))
    assert [level.name for level in levels] == ["haswell-base"]


def test_kernels_have_a_level_without_tiles_where_their_core_has_them() -> None:
    """A compiler uses tiles nowhere by itself, so that programs have no such level."""
    core = load_core("sapphirerapids")
    noamx, avx2, _ = lower_levels(core, kernel_usable_extensions(core))

    assert kernel_usable_extensions(core) - usable_extensions(core) == {"amx-tile", "amx-int8", "amx-bf16"}
    assert (noamx.name, avx2.name) == ("sapphirerapids-noamx", "sapphirerapids-avx2")
    assert frozenset(noamx.extensions) == kernel_usable_extensions(noamx) < kernel_usable_extensions(core)
    assert {"-amx-tile", "-amx-int8"} < set(noamx.llvm_features) and "avx512vnni" in noamx.extensions
    assert [level.name for level in lower_levels(core, usable_extensions(core))][0] == "sapphirerapids-avx2"
