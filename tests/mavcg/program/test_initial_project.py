"""What a folder holds, and the mavcg.toml that is made of it: the same tables when it is read again."""

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.program.buildfile import BuildFile, ModelTable, ProfileTable, read_project
from mavcg.program.folder_contents import FolderContents, list_contents
from mavcg.program.initial_project import InitialProject, propose, toml_text

SUFFIXES = (".onnx", ".tflite")
EMPTY = FolderContents()


def tree(folder: Path, files: Mapping[str, str]) -> FolderContents:
    """The contents of a folder with these files: name -> text."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list_contents(folder, SUFFIXES)


def test_sources_programs_and_models(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    program = tmp_path / "old" / "tool"
    program.parent.mkdir()
    shutil.copy(sys.executable, program)
    program.chmod(0o755)
    ignored = ("a/b/c/d/far.c", "node_modules/n.c", ".git/g.c", "notes.txt", "script.sh")
    files = {
        **dict.fromkeys(("src/b.cpp", "net.onnx", "deep/er/x.tflite", *ignored), ""),
        "a.c": "int f(void);",
        "main.c": "#include <x.h>\nint\nmain(int c, char **v) {}\n",
    }
    found = tree(tmp_path, files)
    assert found == FolderContents(
        sources=("a.c", "src/b.cpp"),
        mains=("main.c",),
        include_folders=("include",),
        programs=("old/tool",),
        models=("deep/er/x.tflite", "net.onnx"),
    )


def test_a_cmake_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lists = "project(x)\nadd_executable(app main.c)\nadd_executable(${name} y.c)\n"
    files = {
        **dict.fromkeys(("out/compile_commands.json", "out/CMakeCache.txt", "out/moc/gen.c"), ""),
        "CMakeLists.txt": lists,
        "tools/CMakeLists.txt": "Add_Executable ( t-1\n t.c)",
        "main.c": "int main(void) {}",
    }
    found = tree(tmp_path, files)
    assert found.cmake and (found.cmake_tree, found.new_tree) == ("out", "build")
    assert found.guessed_programs == ("app", "tools/t-1")
    assert (found.sources, found.mains) == ((), ("main.c",))  # what is generated in the build tree is not a source
    monkeypatch.setenv("PATH", "/nowhere")
    assert list_contents(tmp_path, SUFFIXES).cmake
    without_cmake = tree(tmp_path, {"Makefile": "other: other.o x.o\n", "build/x": ""})
    assert not without_cmake.cmake and without_cmake.guessed_programs == ("other",)
    assert without_cmake.new_tree == "build-mavcg"  # somebody's own build folder is left alone


def test_cmake_s_programs_under_the_fewest_conditions_come_first(tmp_path: Path) -> None:
    lists = "if(PROGRAMS)\n IF (CUSTOM)\n  add_executable(custom a.c)\n endif()\n add_executable(demo a.c)\nendif()\n"
    found = tree(tmp_path, {"CMakeLists.txt": lists, "a/CMakeLists.txt": "add_executable(always b.c)\n"})
    assert found.guessed_programs == ("a/always", "demo", "custom")


def test_a_makefile_s_first_goal(tmp_path: Path) -> None:
    text = "X := 1\n.PHONY: all\nall: bench lib.a\nclean:\n\trm x\nlib.a: a.o\nbench: bench.o\nother: other.o\n"
    files = tree(tmp_path, {"Makefile": text})
    assert (files.makefile, files.guessed_programs) == ("Makefile", ("bench",))


# The top of zstd's Makefile, in its form: programs are linked by makes in other folders.
SUBMAKES = """
PRGDIR = programs
.PHONY: default
default: lib-release zstd-release
.PHONY: everything
everything: allzstd zlibwrapper
lib-release:
\t$(Q)$(MAKE) -C lib $@
zstd zstd-release:
\t$(Q)$(MAKE) -C $(PRGDIR) $@
\t$(Q)ln -sf $(PRGDIR)/zstd$(EXT) zstd$(EXT)
"""
LINKED = """
PROGS := tool$(EXE) other
OBJS = a.o \\
       b.o
all: $(PROGS) libx.a libx.so gen.h
tool: $(OBJS)
\t$(CC) $(CFLAGS) $^ -o $@ $(LIBS)
other: other.o ; g++ -o other other.o
libx.a: a.o
\tar rcs $@ $^
libx.so: a.o
\t$(CC) -shared -o $@ $^
gen.h: script
\t./script > $@
script:
\ttouch -o script
unreached: a.o
\t$(CC) -o $@ $^
%.o: %.c
\t$(CC) -c -o $@ $<
"""


@pytest.mark.parametrize(
    ("text", "programs"),
    [
        (SUBMAKES, ()),
        (LINKED, ("tool", "other")),
        (".DEFAULT_GOAL := b\na: a.o\nb: b.c\n", ("b",)),
        ("x: $(shell touch planted)\n\t$(CC) -o $@\n", ("x",)),
        ("A = $(A)$(A)\nx: $(A)\n", ()),
        ("", ()),
    ],
)
def test_what_make_would_link(tmp_path: Path, text: str, programs: tuple[str, ...]) -> None:
    files = tree(tmp_path, {"Makefile": text, "planted.c": ""})
    assert files.guessed_programs == programs and not (tmp_path / "planted").exists()
    proposal = propose(files, "host")
    assert (proposal.missing == ("profile.command",)) == (not programs)


def test_copies_of_one_library_are_taken_once(tmp_path: Path) -> None:
    functions = [f"DUK_EXTERNAL int duk_{n}(void *ctx, int (*f)(int)) {{\n\treturn {n};\n}}\n" for n in range(20)]
    files = {
        "src/duktape.c": f"/*{' ' * (1 << 20)}*/\n{''.join(functions)}",  # as long as amalgamations are
        "src-noline/duktape.c": "".join(functions),
        **{f"src-input/duk_{n}.c": text for n, text in enumerate(functions)},
        **{f"src-separate/duk_{n}.c": text for n, text in enumerate(functions)},
        "extras/print.c": "".join(f"int extra_{n}(void)\n{{\n}}\n" for n in range(9)) + functions[0],
    }
    found = tree(tmp_path, files)
    assert found.sources == ("extras/print.c", "src/duktape.c")
    assert found.copies == ("src-input", "src-noline", "src-separate")
    [guess] = propose(found, "host").guesses
    assert guess.startswith("build.sources: without src") and "src-separate" in guess


def test_what_is_proposed_for_several_programs_can_be_compiled(tmp_path: Path) -> None:
    """Patterns take no file with a main function; headers are found; examples of a library are no part of it."""
    files = {
        **{f"extras/x{n}/x{n}.c": '#include "lib.h"\n#include <stdio.h>\n#include "x.h"\n' for n in range(7)},
        **{f"extras/x{n}/test.c": "int main(void) { return 0; }\n" for n in range(7)},
        **{f"src/{n}.c": '#include "lib.h"\n#include "in/own.h"\n# include "here.h"' for n in range(7)},
        **dict.fromkeys(("src/lib.h", "src/here.h", "deep/er/lib.h", "x.h", "code/in/own.h", "include/stdio.h"), ""),
        "examples/lib.h": "",
        "examples/win/socket.c": "#include <windows.h>\n",
        "examples/eval/eval.c": "int main(void) { return 0; }\n",
    }
    found = tree(tmp_path, files)
    proposal = propose(found, "host")
    assert found.aside == ("examples",) and "build.sources: without examples" in proposal.guesses
    assert proposal.build is not None and proposal.profile == ProfileTable()
    assert proposal.build.sources == (*(f"extras/x{n}/x{n}.c" for n in range(7)), "src/*.c")
    assert proposal.build.flags == ("-Iinclude", "-Isrc", "-I.", "-Icode")


def test_examples_count_where_there_is_nothing_else_or_one_program(tmp_path: Path) -> None:
    only = tree(tmp_path / "a", {"tests/a.c": "", "tests/b.c": "int main(void) {}"})
    one = tree(tmp_path / "b", {"a.c": "", "example/b.c": "int main(void) {}", "example/c.c": ""})
    assert (only.sources, only.mains, only.aside) == (("tests/a.c",), ("tests/b.c",), ())
    assert (one.sources, one.mains, one.aside) == (("a.c", "example/c.c"), ("example/b.c",), ())


def test_names_that_no_text_can_hold_are_left_out(tmp_path: Path) -> None:
    for name in (b"a\nb.c", b"\xff.c", b"\x1b[31m.onnx", b"good one.c"):
        with open(os.fsencode(tmp_path) + b"/" + name, "w"):
            pass
    contents = list_contents(tmp_path, SUFFIXES)
    assert (contents.sources, contents.models) == (("good one.c",), ())


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list_contents(tmp_path / "absent", SUFFIXES)


def test_sources_are_compiled_to_a_program(tmp_path: Path) -> None:
    contents = replace(EMPTY, sources=("k.c",), mains=("m.cpp",), include_folders=("include",))
    proposal = propose(contents, "rk3588")
    assert proposal.profile == ProfileTable(
        ("./app",), ("c++", "-O2", "-g", "-Iinclude", "m.cpp", "k.c", "-o", "app", "-lm")
    )
    assert proposal.build == BuildFile(sources=("k.c",), flags=("-Iinclude",), board="rk3588")
    assert (proposal.guesses, proposal.missing) == ((), ())


def test_two_programs_are_not_compiled_to_one(tmp_path: Path) -> None:
    proposal = propose(replace(EMPTY, sources=("k.c",), mains=("m.c", "n.c")), "host")
    assert proposal.profile == ProfileTable() and proposal.missing == ("profile.command",)
    with_program = propose(replace(EMPTY, sources=("k.c",), programs=("new", "old")), "host")
    assert with_program.profile == ProfileTable(("./new",))
    assert with_program.guesses == ("profile.command: ./new (others: old)",)


def test_many_sources_become_patterns() -> None:
    names = tuple(f"src/{number:02}.c" for number in range(20)) + tuple(f"{number:02}.cc" for number in range(20))
    build = propose(replace(EMPTY, sources=names), "host").build
    assert build is not None and build.sources == ("src/*.c", "*.cc")


def test_what_builds_the_program() -> None:
    cmake = propose(replace(EMPTY, cmake=True, guessed_programs=("app",)), "host")
    assert cmake.profile is not None and cmake.build is not None
    assert cmake.profile.build[:2] == ("sh", "-c") and "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON" in cmake.profile.build[2]
    assert cmake.build == BuildFile(compile_commands="build/compile_commands.json", only_hot=True, board="host")
    assert cmake.profile.command == ("./build/app",)
    linked = replace(EMPTY, cmake=True, compile_commands="compile_commands.json", guessed_programs=("app",))
    configured = propose(replace(linked, cmake_tree="out"), "host")
    assert configured.profile == ProfileTable(("./out/app",), ("cmake", "--build", "out"))
    assert configured.build is not None and configured.build.compile_commands == "out/compile_commands.json"
    bear = propose(replace(EMPTY, makefile="Makefile", compile_commands="compile_commands.json"), "host")
    assert bear.profile is not None and bear.profile.build == ("make",)
    assert bear.build is not None and bear.build.compile_commands == "compile_commands.json"
    make = propose(replace(EMPTY, makefile="Makefile", guessed_programs=("app",)), "host")
    assert make.build is not None and make.build.command[:2] == ("make", "-B")
    assert make.profile == ProfileTable(("./app",), ("make",)) and make.guesses == ("profile.command: ./app",)


def test_models_need_no_program() -> None:
    proposal = propose(replace(EMPTY, models=("a.onnx", "b.tflite")), "rk3588")
    assert proposal == InitialProject(
        None, None, (ModelTable("a.onnx", board="rk3588"), ModelTable("b.tflite", board="rk3588"))
    )
    assert "[profile]" not in toml_text(proposal)


def test_an_empty_folder_gets_a_file_to_fill_in(tmp_path: Path) -> None:
    proposal = propose(EMPTY, "host")
    assert proposal.missing == ("profile.command", "build.sources")
    text = toml_text(proposal)
    (tmp_path / "mavcg.toml").write_text(text)
    read = read_project(tmp_path / "mavcg.toml")
    assert (read.profile, read.build) == (ProfileTable(), BuildFile(board="host"))
    filled = re.sub(r"^# (command|sources) = ", r"\1 = ", text, flags=re.M)
    (tmp_path / "mavcg.toml").write_text(filled)
    read = read_project(tmp_path / "mavcg.toml")
    assert read.profile == ProfileTable(("./app", "argument"))
    assert read.build is not None and read.build.sources == ("src/*.c",)


names = st.lists(st.text(min_size=1, max_size=8).filter(lambda text: "\0" not in text), max_size=3, unique=True).map(
    tuple
)


@given(sources=names, mains=names, programs=names, models=names, makefile=st.booleans(), commands=names)
def test_what_is_written_reads_as_what_was_proposed(
    tmp_path_factory: pytest.TempPathFactory,
    sources: tuple[str, ...],
    mains: tuple[str, ...],
    programs: tuple[str, ...],
    models: tuple[str, ...],
    makefile: bool,
    commands: tuple[str, ...],
) -> None:
    contents = replace(
        EMPTY,
        sources=sources,
        mains=mains,
        programs=programs,
        models=models,
        makefile="Makefile" if makefile else "",
        compile_commands="".join(commands),
    )
    proposal = propose(contents, "rk3588")
    path = tmp_path_factory.getbasetemp() / "proposed.toml"
    path.write_text(toml_text(proposal), encoding="utf-8", newline="")
    read = read_project(path)
    assert read.models == proposal.models
    if proposal.build is not None:
        assert (read.profile, read.build) == (proposal.profile, proposal.build)
