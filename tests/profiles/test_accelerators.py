"""Accelerator files: what they say, what is refused, and that nothing but a ProfileError leaves."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError, ProfileError
from mavcg.hardware.accelerator import DIMENSIONS, Accelerator, MemoryLevel
from mavcg.profiles.accelerators import KEYS, LEVEL_KEYS, find_accelerator, read_accelerator
from mavcg.profiles.folders import files
from tests.conftest import examples

DOCS = Path(__file__).parents[2] / "docs"
FIGURE = """{
     "bandwidth": 1.6, // off-chip bandwidth (GB/s)
     "frequency": 1.2,
     "mem_size": [368,288,144], // on-chip memories (KB)
     "pe_len": [32, 16],
     "pe_mapping": [ ["IC"], // columns
         ["OC"] ]
   }
"""


def written(folder: Path, text: str, name: str = "mine.json") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_file_is_read_as_the_figure_explains_it(tmp_path: Path) -> None:
    level = MemoryLevel("memory", 1.6, 368 * 1024, 288 * 1024, 144 * 1024)
    expected = Accelerator("mine", 1.2, (level,), (32, 16), (("IC",), ("OC",)))
    assert read_accelerator(written(tmp_path, FIGURE)) == expected


def test_shared_memory_and_a_name(tmp_path: Path) -> None:
    text = FIGURE.replace("[368,288,144]", "0.5").replace("{", '{ "name": "an // NPU", "source": "its manual",', 1)
    accelerator = read_accelerator(written(tmp_path, text))
    assert accelerator.name == "an // NPU"
    assert accelerator.levels == (MemoryLevel("memory", 1.6, shared_bytes=512),)


def test_levels_go_outwards(tmp_path: Path) -> None:
    levels = '"levels": [{"mem_size": [8, 4, 8], "bandwidth": 64}, {"name": "buffer", "mem_size": 512}]'
    accelerator = read_accelerator(written(tmp_path, FIGURE.replace('"mem_size": [368,288,144]', levels)))
    near, far = MemoryLevel("level 1", 64.0, 8192, 4096, 8192), MemoryLevel("buffer", 1.6, shared_bytes=512 * 1024)
    assert accelerator.levels == (near, far)
    assert accelerator.memory == near


@pytest.mark.parametrize(
    ("name", "kib"),
    [
        ("setup-a", (256, 128, 256)),
        ("setup-b", (512, 256, 512)),
        ("setup-c", (256, 256, 256)),
        ("setup-d", (256, 512, 256)),
    ],
)
def test_setups_of_table_8_2(name: str, kib: tuple[int, int, int]) -> None:
    accelerator = find_accelerator(name)
    memory = accelerator.memory
    assert (accelerator.name, accelerator.pes, accelerator.frequency_ghz) == (name, 256, 1.02)
    assert (memory.input_bytes, memory.weight_bytes, memory.output_bytes) == tuple(size * 1024 for size in kib)
    assert (memory.bandwidth_gb_per_s, accelerator.parallel("IC"), accelerator.parallel("OC")) == (60.0, 16, 16)


def test_every_accelerator_of_ours_is_named_as_its_file() -> None:
    names = tuple(files("accelerators"))
    assert names == ("figure-6-1", "setup-a", "setup-b", "setup-c", "setup-d")
    assert tuple(find_accelerator(name).name for name in names) == names
    assert find_accelerator("figure-6-1").pes == 1024


def test_own_folder_comes_before_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "accelerators").mkdir()
    written(tmp_path / "accelerators", FIGURE, "setup-a.json")
    written(tmp_path / "accelerators", FIGURE, "npu.json")
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))
    assert "npu" in files("accelerators")
    assert find_accelerator("setup-a").pe_len == (32, 16)
    assert find_accelerator("npu") == read_accelerator(tmp_path / "accelerators" / "npu.json")


def test_path_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, FIGURE)
    monkeypatch.chdir(tmp_path)
    assert find_accelerator(str(path)) == find_accelerator("mine.json") == find_accelerator("./mine.json")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("setup-e", r"no such accelerator; did you mean setup-"),
        ("Setup_A", r"did you mean setup-a"),
        ("zzz", r"known: figure-6-1, setup-a.*or give a file's path, such as \./zzz\.json"),
    ],
)
def test_unknown_name_suggests_near_ones(name: str, words: str) -> None:
    with pytest.raises(MavcgError, match=rf"--accelerator {name}: .*{words}"):
        find_accelerator(name)


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ('"bandwidth": 1.6,', "", "bandwidth", "missing; give it as bandwidth in GB/s"),
        ("1.6", "-1.6", "bandwidth", "-1.6 is not a number of GB/s above 0"),
        ("1.6", "0", "bandwidth", "0 is not a number of GB/s above 0"),
        ("1.6", "5e-324", "bandwidth", "5e-324 is less than 1e-06 GB/s; give it as bandwidth in GB/s"),
        ("1.2", "1e-9", "frequency", "1e-09 is less than 1e-06 GHz; give it as frequency in GHz"),
        ("1.6", "NaN", "", "NaN is not a number"),
        ("1.6", "-Infinity", "", "-Infinity is not a number"),
        ("1.6", "1e999", "bandwidth", "Infinity is not a number of GB/s"),
        ("1.6", "1" * 5000, "", "a number of thousands of digits"),
        ("1.6", '"1.6 GB/s"', "bandwidth", '"1.6 GB/s" is not a number of GB/s'),
        ("1.6", "true", "bandwidth", "true is not a number of GB/s"),
        ("1.6", "null", "bandwidth", "missing; give it as bandwidth in GB/s"),
        ("1.6", "1.6e9", "bandwidth", "and at most 100000"),
        ("1.2,", '1.2, "frequency": 1.3,', "", '"frequency" appears twice in one object'),
        ("1.2", "1200000000", "frequency", "1200000000 is not a number of GHz above 0 and at most 100"),
        ("[368,288,144]", "[368,288]", "mem_size", "has 2 sizes, not 3; write mem_size = [input, weight, output]"),
        ("[368,288,144]", "[368,-288,144]", "mem_size[1] (weight)", "-288 is not a number of KB above 0"),
        ("[368,288,144]", "[368,288,0]", "mem_size[2] (output)", "0 is not a number of KB above 0"),
        ("[368,288,144]", "[368,288,[144]]", "mem_size[2] (output)", "[144] is not a number of KB"),
        ("[368,288,144]", '{"input": 368}', "mem_size", "is not a number of KB"),
        ("[368,288,144]", "0.3", "mem_size", "0.3 KB is not a whole number of bytes"),
        ('"mem_size": [368,288,144],', "", "mem_size", "missing; write mem_size ="),
        (
            '"mem_size": [368,288,144],',
            '"levels": [{"mem_size": 8}], "mem_size": 9,',
            "levels",
            "given beside mem_size",
        ),
        ('"mem_size": [368,288,144]', '"levels": []', "levels", "[] is not a list of memories"),
        ('"mem_size": [368,288,144]', '"levels": [8]', "levels[0]", '8 is not a table; write [{ "name"'),
        ('"mem_size": [368,288,144]', '"levels": [{"bandwidth": 8}]', "levels[0].bandwidth", "remove it"),
        ('"mem_size": [368,288,144]', '"levels": [{}]', "levels[0].mem_size", "missing"),
        ('"mem_size": [368,288,144]', '"levels": [{"mem_size": 8}, {"mem_size": 9}]', "levels[0].bandwidth", "missing"),
        (
            '"mem_size": [368,288,144]',
            '"levels": [{"mem_size": 8, "bandwidth": 9}, {"mem_size": 4}]',
            "levels[1].mem_size",
            "4 is less than the nearer level's; list the levels from the nearest",
        ),
        (
            '"mem_size": [368,288,144]',
            '"levels": [{"mem_size": 8, "bandwidth": 9}, {"mem_size": [9, 9, 7]}]',
            "levels[1].mem_size",
            "[9, 9, 7] is less than the nearer level's",
        ),
        (
            '"mem_size": [368,288,144]',
            '"levels": [{"name": "a", "mem_size": 8, "bandwidth": 9}, {"name": "a", "mem_size": 9}]',
            "levels[1].name",
            '"a" is the name of another level; change it',
        ),
        (
            '"mem_size": [368,288,144]',
            '"levels": [{"size": 9}]',
            "levels[0].size",
            "no such key; did you mean mem_size",
        ),
        ("[32, 16]", "[32]", "pe_len", "[32] is not a pair of lengths"),
        ("[32, 16]", "[32, 0]", "pe_len[1]", "0 is not a number of processing elements above 0"),
        ("[32, 16]", "[32, 1.5]", "pe_len[1]", "1.5 is not a whole number"),
        ('"pe_len": [32, 16],', "", "pe_len", 'missing; write "pe_len": [width, height]'),
        ('["IC"]', '["IX"]', "pe_mapping[0][0]", '"IX" is not one of the loops OC, IC, OH, OW, KH, KW; write'),
        ('["IC"]', '["ic"]', "pe_mapping[0][0]", '"ic" is not one of the loops'),
        ('["IC"]', "[7]", "pe_mapping[0][0]", "7 is not one of the loops"),
        ('["IC"]', '["OC"]', "pe_mapping[1][0]", "OC is mapped twice; map each loop to one side"),
        ('["IC"]', '["IC", "IC"]', "pe_mapping[0][1]", "IC is mapped twice"),
        ('["IC"]', "[]", "pe_mapping[0]", "no loop runs along 32 processing elements; name one, or write 1"),
        ('["IC"]', '["IC", "KH"]', "pe_mapping[0]", "2 loops along one side of the array"),
        ('["IC"]', '["IC", "KH"]', "pe_mapping[0]", 'name the one that is cut, such as ["IC"]'),
        ('["IC"]', '"IC"', "pe_mapping[0]", "is not a list of loops"),
        ('"pe_mapping"', '"pe_maping"', "pe_maping", "no such key; did you mean pe_mapping?"),
        ('"frequency"', '"voltage": 1, "frequency"', "voltage", "no such key; keys here are name, source, bandwidth"),
        ('"frequency"', '"name": 7, "frequency"', "name", "7 is not text"),
        ('"frequency"', '"name": "\\u0007", "frequency"', "name", "characters that are not printed"),
    ],
)
def test_broken_file_names_file_key_value_and_way_out(
    tmp_path: Path, old: str, new: str, place: str, words: str
) -> None:
    assert old in FIGURE
    path = written(tmp_path, FIGURE.replace(old, new, 1))
    with pytest.raises(ProfileError) as caught:
        read_accelerator(path)
    told = str(caught.value)
    assert told.startswith(f"{path}: {place}: " if place else f"{path}: ")
    assert words in told and "; " in told and "\n" not in told


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (FIGURE.replace("1.2,", "1.2"), 4, "Expecting ',' delimiter"),
        (FIGURE.replace("] ]", "]"), 8, "Expecting"),
        (FIGURE.replace("// columns", "/* columns */"), 6, "Expecting"),
        (FIGURE.replace('"frequency"', "frequency"), 3, "Expecting property name"),
        (FIGURE + "}", 9, "Extra data"),
        ("", 1, "Expecting value"),
        ("// nothing but a comment", 1, "Expecting value"),
        ('{"name": "open\n}', 1, "Invalid control character"),
    ],
)
def test_what_is_no_json_names_the_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = written(tmp_path, text)
    message = rf"^{re.escape(str(path))}: line {line}, column \d+: not JSON \(.*{words}.*\); correct the line$"
    with pytest.raises(ProfileError, match=message):
        read_accelerator(path)


@pytest.mark.parametrize("text", ["[]", "7", "null", '"setup-a"'])
def test_json_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ProfileError, match=rf"{re.escape(text)} is not an accelerator; write"):
        read_accelerator(written(tmp_path, text))


def test_nesting_too_deep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="nested too deep|not JSON"):
        read_accelerator(written(tmp_path, "[" * 200_000))


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b'{"name": "\xe9"}')
    for name in ("none.json", "latin.json", ".", "nul\0.json"):
        with pytest.raises(ProfileError, match=r"cannot be read \(.*\); give the path"):
            read_accelerator(tmp_path / name)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(DIMENSIONS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(LEVEL_KEYS), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(150, 6))
@given(
    changes=st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), values, max_size=3), cut=st.integers(0, 400)
)
def test_nothing_but_a_profile_error_leaves(tmp_path: Path, changes: dict[str, object], cut: int) -> None:
    """JSON with any values in it, and any beginning of such a file."""
    whole = json.loads(re.sub("//.*", "", FIGURE)) | changes
    for text in (json.dumps(whole), json.dumps(whole)[:cut]):
        try:
            accelerator = read_accelerator(written(tmp_path, text))
        except ProfileError as error:
            assert "mine.json" in str(error) and "\n" not in str(error)
        else:
            assert accelerator.pes > 0 and all(level.bandwidth_gb_per_s > 0 for level in accelerator.levels)


@settings(max_examples=examples(100, 5))
@given(text=st.text('{}[]",:/\\ \n0123456789.eE+-NaIinfty"bandwidth', max_size=60))
def test_any_text_is_read_or_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ProfileError):
        read_accelerator(written(tmp_path, text))


@given(name=st.text('ab"/\\ ', max_size=12))
@settings(max_examples=examples(100, 5))
def test_comment_signs_in_strings_stay(tmp_path: Path, name: str) -> None:
    text = FIGURE.replace("{", '{ "name": ' + json.dumps("x" + name) + ", // a name\n", 1)
    assert read_accelerator(written(tmp_path, text)).name == "x" + name


def test_page_is_right_and_explains_every_key(tmp_path: Path) -> None:
    page = (DOCS / "add-an-accelerator.md").read_text()
    one, several = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert read_accelerator(written(tmp_path, one, "my-npu.json")).name == "my-npu"
    assert [level.name for level in read_accelerator(written(tmp_path, several)).levels] == ["scratch", "global buffer"]
    assert [key for key in (*KEYS, *LEVEL_KEYS) if f"`{key}`" not in page] == []
    assert [name for name in DIMENSIONS if f"`{name}`" not in page] == []


# -- TOML -----------------------------------------------------------------------------------------------------------

TOML = """
bandwidth = 1.6  # off-chip, GB/s
frequency = 1.2
mem_size = [368, 288, 144]
pe_len = [32, 16]
pe_mapping = [["IC"], ["OC"]]
"""


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_toml_says_the_same_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    path = written(tmp_path, mark + TOML, "mine.toml")
    assert read_accelerator(path) == read_accelerator(written(tmp_path, FIGURE))
    monkeypatch.chdir(tmp_path)
    assert find_accelerator("mine.toml") == read_accelerator(path)


def test_levels_of_toml(tmp_path: Path) -> None:
    levels = "[[levels]]\nmem_size = [8, 4, 8]\nbandwidth = 64\n[[levels]]\nname = 'buffer'\nmem_size = 512\n"
    text = TOML.replace("mem_size = [368, 288, 144]\n", "") + levels
    near, far = MemoryLevel("level 1", 64.0, 8192, 4096, 8192), MemoryLevel("buffer", 1.6, shared_bytes=512 * 1024)
    assert read_accelerator(written(tmp_path, text, "mine.toml")).levels == (near, far)


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("= 1.6", "= nan", "bandwidth", "NaN is not a number of GB/s above 0"),
        ("= 1.6", "= -inf", "bandwidth", "-Infinity is not a number of GB/s above 0"),
        ("= 1.6", "= 2026-01-02", "bandwidth", '"2026-01-02" is not a number of GB/s'),
        ("= 1.6", f"= 0x{'f' * 5000}", "bandwidth", "a number of thousands of digits is not a number of GB/s"),
        ("= 1.6", f"= {'1' * 5000}", "", "a number of thousands of digits is too large"),
        ("= 1.2", "= 1.2\nfrequency = 1.3", "", "not TOML (Cannot overwrite a value"),
        ("mem_size", "memory_size", "memory_size", "no such key; did you mean mem_size"),
        ("bandwidth = 1.6", "", "bandwidth", "missing; give it as bandwidth in GB/s"),
    ],
)
def test_faulty_toml_is_refused(tmp_path: Path, old: str, new: str, place: str, words: str) -> None:
    assert old in TOML
    path = written(tmp_path, TOML.replace(old, new, 1), "mine.toml")
    with pytest.raises(ProfileError) as caught:
        read_accelerator(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: {place}") and words in message and "\n" not in message


def test_own_toml_comes_before_ours_and_not_beside_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "accelerators").mkdir()
    written(tmp_path / "accelerators", TOML, "setup-a.toml")
    monkeypatch.setenv("MAVCG_PROFILES", str(tmp_path))
    assert find_accelerator("setup-a").pe_len == (32, 16)
    written(tmp_path / "accelerators", FIGURE, "setup-a.json")
    with pytest.raises(ProfileError, match=r"setup-a\.toml: setup-a\.json beside it has the same name; remove one"):
        find_accelerator("setup-a")
