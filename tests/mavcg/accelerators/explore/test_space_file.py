"""Design spaces: read, counted, and refused with the value that is impossible."""

from pathlib import Path

import pytest

from mavcg.accelerators.explore.space_file import read_space
from mavcg.errors import MavcgError
from mavcg.profiles.accelerators import accelerator_of
from tests.mavcg.accelerators.explore.spaces import PLAIN, written


@pytest.mark.parametrize(
    ("key", "value", "count"),
    [
        ("mem_size", "64", 1),
        ("mem_size", "[64, 32, 64]", 1),
        ("mem_size", "[[64, 32, 64], [128, 64, 128]]", 2),
        ("mem_size", "[[256], [512], [1024]]", 3),
        ("mem_size", "[[64, 32, 64], 256]", 2),
        ("pe_len", "[[8, 8], [16, 16]]", 2),
        ("pe_mapping", '[[["IC"], ["OC"]], [["OW"], ["OC"]]]', 2),
        ("bandwidth", "[10, 20, 40]", 3),
        ("frequency", "[0.5]", 1),
        ("precision", '["f32", "f16", "i8"]', 3),
    ],
)
def test_a_value_or_a_list_of_values(tmp_path: Path, key: str, value: str, count: int) -> None:
    space = read_space(written(tmp_path, **{key: value}))

    assert space.points == count == len(space.values(key))


def test_points_are_the_product_and_machines_of_accelerator_files(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        mem_size="[[64, 32, 64], 256]",
        pe_len="[[8, 4], [16, 16], [1, 32]]",
        bandwidth="[10, 20]",
        frequency="[1, 2, 3, 4]",
        precision='["i8", "f32"]',
    )
    space = read_space(path)
    structures = list(space.all_structures())
    points = [space.point(number) for number in range(space.points)]

    assert space.points == 2 * 3 * 2 * 4 * 2 == len({str(point) for point in points})
    for number, point in enumerate(points):
        structure = structures[number // space.rates]
        assert structure.precision == point.pop("precision")
        machine = accelerator_of(path, point)
        assert (machine.memory.input_bytes, machine.memory.shared_bytes) == (
            structure.memory.input_bytes,
            structure.memory.shared_bytes,
        )
        assert (machine.pe_len, machine.pe_mapping) == (structure.pe_len, structure.pe_mapping)
        assert all(machine.parallel(name) == structure.parallel(name) for name in ("OC", "IC", "OH", "OW", "KH", "KW"))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"bandwidth": "[10, 0]"}, "accelerator, value 0 of bandwidth: bandwidth: 0 is not a number of GB/s above 0"),
        ({"bandwidth": "[]"}, "accelerator.bandwidth: has no values"),
        ({"bandwidth": "[10, 10]"}, "accelerator.bandwidth: 10 is given twice"),
        ({"bandwidth": "[[10]]"}, "value [[10]] of bandwidth"),
        ({"bandwidth": ""}, "accelerator.bandwidth: missing"),
        ({"frequency": '"fast"'}, 'value "fast" of frequency'),
        ({"mem_size": "[64, 32]"}, "[64, 32] is not a list of memories; write lists in a list"),
        ({"mem_size": "[[64, 32]]"}, "value [64, 32] of mem_size: mem_size: [64, 32] has 2 sizes, not 3"),
        ({"mem_size": "[[64, 32, -1]]"}, "mem_size[2] (output): -1 is not a number of KB above 0"),
        ({"mem_size": "0.0001"}, "is not a whole number of bytes"),
        ({"pe_len": "[[8, 8], [8, 2.5]]"}, "value [8, 2.5] of pe_len: pe_len[1]: 2.5 is not a whole number"),
        ({"pe_len": "8"}, "value 8 of pe_len: pe_len: 8 is not a pair of lengths"),
        ({"pe_mapping": '[["IC"], ["XY"]]'}, '"XY" is not one of the loops OC'),
        ({"pe_mapping": '[[["IC"], ["IC"]]]'}, "IC is mapped twice"),
        ({"pe_mapping": '[[["IC"], ["OC"]], [["IC"], []]]'}, "no loop runs along 8 processing elements"),
        ({"precision": '["f64"]'}, 'accelerator.precision: "f64" is not known; give one of f32, f16, i8'),
        ({"levels": "[]"}, "accelerator.levels: given beside mem_size"),
        ({"mem_size": ""}, "accelerator.mem_size: missing, and levels too"),
        ({"mem_size": "", "levels": "[[]]"}, "of levels: levels: [] is not a list of memories"),
        ({"mem_size": "", "levels": "[[{ mem_size = 64 }, { mem_size = 32 }]]"}, "levels[0].bandwidth: missing"),
        (
            {"mem_size": "", "levels": "[{ mem_size = 64, bandwidth = 50 }, { mem_size = 32 }]"},
            "levels[1].mem_size: 32 is less than the nearer level's",
        ),
        ({"colour": "1"}, "accelerator.colour: no such key"),
        (
            {"bandwidth": str(list(range(1, 4001))), "frequency": str([i / 100 for i in range(1, 4001)])},
            "16000000 points",
        ),
    ],
)
def test_impossible_values_are_refused_with_a_reason(tmp_path: Path, keys: dict[str, str], message: str) -> None:
    path = written(tmp_path, **keys)
    with pytest.raises(MavcgError) as error:
        read_space(path)

    assert message in str(error.value) and str(error.value).startswith(str(path))


def test_other_faults_of_the_file(tmp_path: Path) -> None:
    for text, message in (
        ("", "accelerator: missing"),
        ("accelerator = 3", "accelerator: 3 is not a table"),
        ("[accelerator", "not TOML"),
        ('technology = "46nm"\n[accelerator]\n' + "\n".join(f"{k} = {v}" for k, v in PLAIN.items()), "known: 45nm"),
        ("[objective]", "objective: no such key"),
    ):
        path = tmp_path / "space.toml"
        path.write_text(text)
        with pytest.raises(MavcgError) as error:
            read_space(path)
        assert message in str(error.value)
    with pytest.raises(MavcgError, match="cannot be read"):
        read_space(tmp_path / "none.toml")
