import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.program.sources.arguments import expand_response_files, split_response, words
from mavcg.program.sources.compile_commands import CompileUnit, NotAUnit, read_command, read_compile_commands


def write(folder: Path, entries: Any) -> Path:
    path = folder / "compile_commands.json"
    path.write_text(entries if isinstance(entries, str) else json.dumps(entries))
    return path


def unit(line: str, folder: Path = Path("/p")) -> CompileUnit:
    command_unit = read_command(line.split(), folder)
    assert isinstance(command_unit, CompileUnit), command_unit
    return command_unit


def test_both_forms_give_the_same_unit(tmp_path: Path) -> None:
    arguments = ["gcc", "-DNAME=a b", "-c", "x.c", "-o", "out/x.o"]
    command = "gcc '-DNAME=a b' -c x.c -o out/x.o"
    entry = {"directory": "/p", "file": "x.c"}

    (one,) = read_compile_commands(
        write(tmp_path, [entry | {"arguments": arguments}, entry | {"command": command}])
    ).units

    assert one == CompileUnit(Path("/p/x.c"), Path("/p"), tuple(arguments), Path("/p/out/x.o"), "c")
    assert (one.compiler, one.flags[0]) == (("gcc",), "-DNAME=a b")


def test_a_relative_directory_is_beside_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, [{"directory": "sub", "file": "x.c", "command": "cc -c x.c"}])

    assert read_compile_commands(path).units[0].source == tmp_path / "sub/x.c"


def test_same_source_with_other_flags_is_another_unit(tmp_path: Path) -> None:
    entry = {"directory": "/p", "file": "x.c"}
    lines = ["cc -c x.c -o a.o", "cc -fPIC -c x.c -o b.o", "cc -c x.c -o a.o"]

    units = read_compile_commands(write(tmp_path, [entry | {"command": line} for line in lines])).units

    assert [u.output for u in units] == [Path("/p/a.o"), Path("/p/b.o")]


def test_entries_that_make_no_object_are_left_out(tmp_path: Path) -> None:
    entry = {"directory": "/p", "file": "f"}
    lines = ["as start.s", "gcc -c start.S", "gfortran -c a.f90", "gcc -c x.c"]

    assert [
        u.source.name for u in read_compile_commands(write(tmp_path, [entry | {"command": x} for x in lines])).units
    ] == ["x.c"]


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ({"file": "x.c"}, "not a list"),
        ([3], "entry 0: 3 is not a table"),
        (
            [{"directory": "/p", "command": "cc -c x.c"}],
            "entry 0: file: missing; give it as a string that names a path",
        ),
        ([{"directory": "/p", "file": 7, "command": "cc"}], "entry 0: file: 7 is not a string that names a path"),
        ([{"file": "x.c", "command": "cc -c x.c"}], "entry 0: directory: missing"),
        ([{"directory": "/p", "file": "x.c"}], 'neither "command" nor "arguments"'),
        ([{"directory": "/p", "file": "x.c", "command": "cc 'x"}], "cannot be split into words"),
        (
            [{"directory": "/p", "file": "x.c", "arguments": "cc -c x.c"}],
            'entry 0: arguments: "cc -c x.c" is not a list of strings',
        ),
        ([{"directory": "/p", "file": "x.c", "command": "cc @gone.rsp"}], "response file @gone.rsp in /p"),
    ],
)
def test_garbled_files_name_the_entry(tmp_path: Path, entries: Any, said: str) -> None:
    path = write(tmp_path, entries)
    with pytest.raises(MavcgError) as error:
        read_compile_commands(path)

    assert str(error.value).startswith(str(path)) and said in str(error.value)


def test_a_file_that_is_not_there_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match="CMAKE_EXPORT_COMPILE_COMMANDS"):
        read_compile_commands(tmp_path / "compile_commands.json")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("gcc x.o y.o -o app", "links"),
        ("gcc x.c -o app", "links"),
        ("gcc -E x.c", "preprocesses only"),
        ("gcc -S x.c", "makes assembly"),
        ("gcc -MM x.c", "lists dependencies"),
        ("gcc -c a.c b.c", "several sources at once (a.c, b.c)"),
        ("gcc -c -x c -", "standard input"),
        ("gcc -c x.s", "assembles x.s"),
        ("gcc -c -x assembler-with-cpp x.c", "assembles x.c"),
        ("g++ -x c++-header -c pch.hpp", "precompiles the header"),
        ("gcc -c pch.h", "precompiles the header"),
        ("gcc -c x.f90", "not C or C++"),
        ("nvcc -x cu -c x.c", "not C or C++ (-x cu)"),
        ("gcc --version", "prints the version"),
        ("gcc", "names no source"),
        ("", "names no source"),
    ],
)
def test_commands_that_are_no_unit_say_why(line: str, reason: str) -> None:
    command_unit = read_command(line.split(), Path("/p"))

    assert isinstance(command_unit, NotAUnit) and reason in command_unit.reason


@pytest.mark.parametrize(
    ("line", "language"),
    [
        ("gcc -c x.c", "c"),
        ("g++ -c x.c", "c++"),
        ("clang++-19 -c x.c", "c++"),
        ("gcc -c x.cpp", "c++"),
        ("gcc -c x.C", "c++"),
        ("gcc -xc++ -c x.c", "c++"),
        ("gcc -x c++ -x none -c x.c", "c"),
        ("gcc -c x.i", "cpp-output"),
        ("gcc -c x.ii", "c++-cpp-output"),
    ],
)
def test_language(line: str, language: str) -> None:
    assert unit(line).language == language


def test_a_dependency_file_is_no_input() -> None:
    assert unit("gcc -MD -MT x.o -MF x.c.d -o x.o -c x.c").source == Path("/p/x.c")


@pytest.mark.parametrize(
    ("line", "compiler"),
    [
        ("ccache gcc -c x.c", ("gcc",)),
        ("/usr/bin/env A=1 distcc /opt/g++ -c x.c", ("/opt/g++",)),
        ("mavcg launch gcc -c x.c", ("gcc",)),
        ("mavcg launch -- gcc -c x.c", ("gcc",)),
        ("zig cc -c x.c", ("zig", "cc")),
        ("python3 -m ziglang c++ -c x.c", ("python3", "-m", "ziglang", "c++")),
    ],
)
def test_compiler_words(line: str, compiler: tuple[str, ...]) -> None:
    assert unit(line).compiler == compiler
    assert unit(line).flags == ("-c", "x.c")


@pytest.mark.parametrize(
    ("line", "output"),
    [("gcc -c d/x.c", "/p/x.o"), ("gcc -c x.c -oy.o", "/p/y.o"), ("gcc -c x.c -o /t/y.o", "/t/y.o")],
)
def test_output(line: str, output: str) -> None:
    assert unit(line).output == Path(output)


def test_output_to_nowhere_is_none() -> None:
    assert unit("gcc -c x.c -o /dev/null").output is None


def test_response_files_nest(tmp_path: Path) -> None:
    (tmp_path / "a.rsp").write_text("-DA='x y' @b.rsp\n")
    (tmp_path / "b.rsp").write_text('"-DB=\\"q\\"" -c\tx.c')

    assert expand_response_files(["gcc", "@a.rsp"], tmp_path, "here") == ("gcc", "-DA=x y", '-DB="q"', "-c", "x.c")


def test_response_files_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.rsp").write_text("@a.rsp")
    with pytest.raises(MavcgError, match="name each other"):
        expand_response_files(["@a.rsp"], tmp_path, "here")


def test_response_files_that_name_the_next_many_times_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 files of a line each would be 4^20 words: bytes are counted as often as they are read."""
    for number in range(19):
        (tmp_path / f"{number}.rsp").write_text(f"@{number + 1}.rsp " * 4)
    (tmp_path / "19.rsp").write_text("-DA")
    monkeypatch.setattr("mavcg.program.sources.arguments.MAX_RESPONSE_BYTES", 20_000)
    with pytest.raises(MavcgError, match=r"@\d+\.rsp: is \d+ bytes, and \d+ bytes were read before it"):
        expand_response_files(["@0.rsp"], tmp_path, "here")


def test_a_response_file_of_a_name_that_no_file_has_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match=r"here: response file '@a\\x00b': no file has such a name"):
        expand_response_files(["gcc", "@a\0b"], tmp_path, "here")


def test_the_characters_of_a_word_are_gathered_in_one_list() -> None:
    """A new list for each backslash took quadratic time: 46 s for 300,000, hours for 8 MB."""
    lists: dict[int, list[str]] = {}  # by identity; kept, so that no two have the same

    def see(frame: FrameType, event: str, argument: object) -> Any:
        current = frame.f_locals.get("current")
        if current is not None:
            lists[id(current)] = current
        return see

    before = sys.gettrace()
    sys.settrace(lambda frame, *_: see if frame.f_code is split_response.__code__ else None)
    try:
        assert split_response("\\x" * 300 + " b") == ["x" * 300, "b"]
    finally:
        sys.settrace(before)
    assert sorted(map(len, lists.values())) == [1, 300]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)))
def test_splitting_undoes_quoting(parts: list[str]) -> None:
    quoted = " ".join('"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"' for part in parts)

    assert split_response(quoted) == parts


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize("text", [r"-DA='b\'c'", r'-DA="b\\c" -DB', r"-DA=b\ c", "-DA= \n\t-DB=''", r"-DA='x\"y'"])
def test_splits_as_gcc_does(tmp_path: Path, text: str) -> None:
    (tmp_path / "f.rsp").write_text(text)
    (tmp_path / "x.c").write_text("")
    ours = [w for w in split_response(text)]

    as_file = subprocess.run(
        ["gcc", "-###", "@f.rsp", "-c", "x.c"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    as_words = subprocess.run(
        ["gcc", "-###", *ours, "-c", "x.c"], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    def compile_line(err: str) -> str:
        return next(line for line in err.splitlines() if "cc1" in line).split("-dumpbase")[0]

    assert compile_line(as_file.stderr) == compile_line(as_words.stderr)


@given(st.lists(st.text(max_size=12) | st.sampled_from(["-c", "-o", "-x", "-I", "x.c", "-", "--param", "-MF", "gcc"])))
def test_any_words_are_a_unit_or_a_reason(arguments: list[str]) -> None:
    try:
        command_unit = read_command(arguments, Path("/p"))
    except MavcgError as error:
        assert "response file" in str(error)
    else:
        assert isinstance(command_unit, CompileUnit) or command_unit.reason


@given(st.lists(st.text(max_size=8) | st.sampled_from(["-I", "-D", "-isystem", "-include-pch", "-Ofast", "-xc"])))
def test_words_keep_every_word_in_order(arguments: list[str]) -> None:
    back = [part for word in words(arguments) for part in word.text]

    assert back == arguments or back == [*arguments, ""]  # a value missing at the end


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["directory", "file", "command", "arguments", "output"]), inner, max_size=5)
    ),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=4))
def test_any_json_is_units_or_one_error(tmp_path_factory: pytest.TempPathFactory, entries: list[Any]) -> None:
    path = write(tmp_path_factory.mktemp("db"), entries)
    try:
        assert all(isinstance(found, CompileUnit) for found in read_compile_commands(path).units)
    except MavcgError as error:
        assert str(path) in str(error)


@pytest.mark.parametrize("empty", [{"arguments": []}, {"command": ""}, {"command": "  "}, {"arguments": [""]}])
def test_an_entry_with_an_empty_command_is_left_out_with_a_note(tmp_path: Path, empty: dict[str, Any]) -> None:
    good = {"directory": "/p", "file": "x.c", "command": "cc -c x.c"}
    path = write(tmp_path, [{"directory": "/p", "file": "y.c"} | empty, good])

    units = read_compile_commands(path)

    assert [u.source.name for u in units.units] == ["x.c"]
    assert units.notes == (f"{path}: entry 0 (y.c): an empty command; the entry is left out",)
