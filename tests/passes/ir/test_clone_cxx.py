"""C++ programs print the same with every version: one guard, one object, one virtual table; templates merge."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mavcg.toolchain.target import host_target, parse_target
from tests.conftest import x86_core_of_this_machine

PROGRAMS = Path(__file__).parent / "programs"
TARGETS = {"host": host_target(), "arm": parse_target("aarch64-linux-musl")}
CORE = {"x86_64": x86_core_of_this_machine(), "aarch64": "cortex-a76"}
HOT = (
    "first_guard,second_guard,calls_virtual,casts,Derived::f,Base::g,throws,catches,passes_on,product,thread_locals,"
    "lambdas,groups,Group<int>::*,maps,makes"
)
MAIN = "int drive(); int main() { return drive(); }\n"


@pytest.mark.parametrize("where", ["host", pytest.param("arm", marks=pytest.mark.long)])
def test_every_version_of_a_cxx_program_prints_the_same(build_versions: Callable[..., Any], where: str) -> None:
    target = TARGETS[where]
    files = {"cxx_cases.cpp": (PROGRAMS / "cxx_cases.cpp").read_text(), "main.cpp": MAIN}
    built = build_versions(files, HOT, [CORE[target.arch]], target=target)
    module = built.results[0].modules[0]
    assert module.refused == {} and len(module.choices) >= 18
    expected = built.run(plain=True)
    assert len(expected.splitlines()) == 12
    for core in ("generic", CORE[target.arch]):
        assert built.run(core) == expected


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("where", "together"),
    [
        ("host", True),
        ("arm", False),
        *(pytest.param(*rest, marks=pytest.mark.long) for rest in [("host", False), ("arm", True)]),
    ],
)
def test_files_that_share_templates_and_names(build_versions: Callable[..., Any], where: str, together: bool) -> None:
    """Both hold weighed<float>, named and a static same_name, all hot: the linker keeps one of each shared body."""
    target = TARGETS[where]
    names = ("shared.h", "one.cpp", "two.cpp", "main_two_files.cpp")
    built = build_versions(
        {name: (PROGRAMS / name).read_text() for name in names},
        "weighed,named,same_name,one,two",
        [CORE[target.arch]],
        target=target,
        together=together,
        versioned=["one.cpp", "two.cpp"],
    )
    expected = built.run(plain=True)
    assert all(line.endswith(" 1") for line in expected.splitlines())
    for core in ("generic", CORE[target.arch]):
        assert built.run(core) == expected
    # Hot functions call each other's versions directly: the trace sees those that the program itself calls.
    assert built.versions_run(CORE[target.arch])["_Z3onePKfi"] == CORE[target.arch]


@pytest.mark.long
def test_an_object_without_versions_of_a_template_links_with_one_that_has_them(
    build_versions: Callable[..., Any],
) -> None:
    """In one file the template is hot and called by other hot functions, in the other nothing is."""
    names = ("shared.h", "one.cpp", "two.cpp", "main_two_files.cpp")
    for versioned in (["one.cpp"], ["two.cpp"]):
        built = build_versions(
            {name: (PROGRAMS / name).read_text() for name in names},
            "weighed,one,two",
            [CORE[host_target().arch]],
            versioned=versioned,
            together=False,
        )
        assert built.run(CORE[host_target().arch]) == built.run(plain=True)
