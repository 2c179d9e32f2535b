"""What emitters are told of cores: facts of profiles, and what a model library needs at least."""

from dataclasses import replace

import pytest
from llvmlite import binding

from mavcg.errors import MavcgError
from mavcg.hardware.core import GENERIC
from mavcg.profiles.load import cores_for, load_cores
from mavcg.runtime.machines import machines_for, packing_for
from mavcg.toolchain.target import parse_target

ARM, X86 = parse_target("aarch64-linux-gnu.2.17"), parse_target("x86_64-linux-gnu.2.17")


def test_generic_is_always_there_and_first() -> None:
    for target in (ARM, X86):
        assert list(machines_for((), target)) == [GENERIC]
    assert list(machines_for(cores_for(["cortex-a76", "cortex-a55"]), ARM)) == [GENERIC, "cortex-a76", "cortex-a55"]


def test_arm_machines_are_what_their_profiles_say() -> None:
    machine_of = machines_for(cores_for(["cortex-a55", "cortex-a75", "exynos-m4", "cortex-a53", "cortex-a57"]), ARM)

    assert {name: m.in_order for name, m in machine_of.items()} == {
        "generic": False,
        "cortex-a55": True,
        "cortex-a75": False,
        "exynos-m4": False,
        "cortex-a53": True,
        "cortex-a57": False,
    }
    assert [name for name, m in machine_of.items() if m.dot_product] == ["cortex-a55", "cortex-a75", "exynos-m4"]
    assert {(m.vector_bytes, m.vector_registers) for m in machine_of.values()} == {(16, 32)}


def test_products_of_matrices_are_where_all_cores_of_a_board_have_them() -> None:
    named = ["cortex-a78", "cortex-a510", "cortex-a715", "cortex-x2", "neoverse-v1", "apple-blizzard"]
    cores = cores_for(named)
    machines = machines_for(cores, ARM)
    assert [name for name in named if not machines[name].matrix_product] == ["cortex-a78"]
    assert not machines["generic"].matrix_product

    off = replace(cores[1], llvm_features=(*cores[1].llvm_features, "-i8mm"))
    assert not machines_for([off], ARM)["cortex-a510"].matrix_product


def test_weights_are_packed_for_products_of_matrices_if_half_of_the_cores_have_them() -> None:
    def terms(*names: str) -> int:
        return packing_for(ARM, machines_for(cores_for(names), ARM).values()).terms

    assert terms("cortex-a510", "cortex-a710", "cortex-x2") == terms("cortex-a55", "cortex-a715") == 8
    assert terms("cortex-a55", "cortex-a76", "cortex-x2") == terms("cortex-a55") == packing_for(ARM).terms == 4


def test_weights_of_bf16_are_packed_for_products_of_matrices_if_all_cores_have_them() -> None:
    def terms(*names: str) -> int:
        return packing_for(ARM, machines_for(cores_for(names), ARM).values()).bf16_terms

    assert terms("cortex-a510", "cortex-a710", "cortex-x2") == 4
    assert terms("cortex-a510", "cortex-a76") == packing_for(ARM).bf16_terms == 1


def test_weights_of_bf16_are_packed_in_pairs_if_all_cores_multiply_them_fast() -> None:
    def terms(*names: str) -> int:
        return packing_for(X86, machines_for(cores_for(names), X86).values()).bf16_terms

    assert terms("znver4", "znver5") == 2
    assert terms("znver3", "znver4") == packing_for(X86).bf16_terms == 1
    assert terms("sapphirerapids", "emeraldrapids", "graniterapids") == 32
    assert terms("sapphirerapids", "znver4") == terms("sapphirerapids", "icelake-server") == 1


def test_weights_may_be_in_two_parts_where_no_core_has_dot_products() -> None:
    def pairs(*names: str) -> bool:
        return packing_for(X86, machines_for(cores_for(names), X86).values()).byte_pairs

    assert pairs("znver3") and pairs("haswell", "skylake-avx512")
    assert not pairs("znver3", "znver4") and not pairs("sapphirerapids") and not packing_for(X86).byte_pairs
    assert not packing_for(ARM, machines_for(cores_for(["cortex-a53"]), ARM).values()).byte_pairs


def test_x86_machines_are_what_their_profiles_say() -> None:
    machine_of = machines_for(cores_for(["haswell", "skylake-avx512", "icelake-server", "intel-gracemont"]), X86)
    widths = {name: (m.vector_bytes, m.vector_registers, m.dot_product) for name, m in machine_of.items()}

    assert widths["generic"] == widths["haswell"] == (32, 16, False)
    assert widths["skylake-avx512"] == (64, 32, False)
    assert widths["icelake-server"] == (64, 32, True)
    assert widths["intel-gracemont"] == (32, 16, True)


def test_tiles_are_of_cores_that_have_them_and_of_no_level_without() -> None:
    machine_of = machines_for(cores_for(["sapphirerapids", "graniterapids", "icelake-server", "znver5"]), X86)
    (core,) = cores_for(["sapphirerapids"])
    off = replace(core, llvm_features=("-amx-int8",))

    assert [name for name, m in machine_of.items() if m.int8_tiles] == ["sapphirerapids", "graniterapids"]
    assert [name for name, m in machine_of.items() if m.bf16_tiles] == ["sapphirerapids", "graniterapids"]
    (machine,) = (m for name, m in machines_for([off], X86).items() if name != "generic")
    assert machine.bf16_tiles and machine.dot_product and not machine.int8_tiles


def test_x86_cores_without_avx2_are_refused() -> None:
    (core,) = cores_for(["haswell"])
    old = replace(core, name="old", llvm_cpu="sandybridge")

    with pytest.raises(MavcgError, match="--cores old: has no AVX2"):
        machines_for([old], X86)


def test_every_profile_makes_a_machine_whose_vectors_the_packing_fits() -> None:
    for target in (ARM, X86):
        lanes = packing_for(target).lanes
        cores = [core for core in load_cores().values() if core.arch == target.arch]
        for machine in machines_for(cores, target).values():
            assert machine.arch == target.arch
            assert lanes % (machine.vector_bytes // 4) == 0
        assert packing_for(target).pixel_lanes % lanes == 0


def test_no_kernel_needs_pointer_authentication() -> None:
    """A call that stores its return address signs it in a form that any core executes: `retaa` is not one."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    text = (
        'declare void @g()\ndefine void @f() "sign-return-address"="non-leaf" {attributes} '
        "{{ call void @g() call void @g() ret void }}"
    )
    target = binding.Target.from_triple(ARM.llvm_triple).create_target_machine()
    for core in (core for core in load_cores("aarch64").values() if "pauth" in core.extensions):
        machine = machines_for((core,), ARM)[core.name]
        features = ",".join(machine.llvm_features)
        attributes = f'"target-cpu"="{machine.llvm_cpu}" "target-features"="{features}"'
        module = f'target triple = "{ARM.llvm_triple}"\n' + text.format(attributes=attributes)
        assembly = target.emit_assembly(binding.parse_assembly(module))
        assert "hint" in assembly and "retaa" not in assembly, core.name


def test_client_cores_and_zen_4_start_one_wide_multiply_add_a_cycle() -> None:
    two, one = ("skylake-avx512", "icelake-server", "sapphirerapids", "znver5"), ("tigerlake", "rocketlake", "znver4")
    machine_of = machines_for(cores_for((*two, *one, "znver3")), X86)
    assert tuple(name for name, machine in machine_of.items() if machine.two_wide_pipes) == two
    assert not machine_of["generic"].two_wide_pipes
    later = replace(cores_for(("sapphirerapids",))[0], llvm_cpu="diamondrapids")  # of which nothing is known
    assert machines_for((later,), X86)[later.name].vector_bytes == 64
    assert not machines_for((later,), X86)[later.name].two_wide_pipes
