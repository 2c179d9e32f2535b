"""app.toml: what it says, and an error with file, line and key for each fault."""

from pathlib import Path

import pytest

from mavcg.apps.application_file import read_application_file
from mavcg.apps.buildable import parallel_pairs
from mavcg.errors import MavcgError

GOOD = """memory = "1.5 MB"
parallel = [["a", "b"]]

[[network]]
name = "a"
file = "a.onnx"
throughput = 20

[[network]]
name = "b"
file = "a.onnx"
precision = "mixed"
partitions = "auto:2"
shapes = { x = [1, 3, 8, 8] }
"""


def read(tmp_path: Path, text: str) -> object:
    (tmp_path / "a.onnx").write_bytes(b"")
    (tmp_path / "app.toml").write_text(text)
    return read_application_file(tmp_path / "app.toml")


def test_everything_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"")
    (tmp_path / "app.toml").write_text(GOOD)
    file = read_application_file(tmp_path / "app.toml")

    assert (file.memory, file.parallel) == (1_500_000, (("a", "b"),))
    first, second = file.networks
    assert (first.name, first.throughput, first.precision, first.partitions, first.line) == ("a", 20.0, "fp32", "", 4)
    assert (second.partitions, second.precision, second.shapes) == ("auto:2", "mixed", {"x": (1, 3, 8, 8)})


@pytest.mark.parametrize("shape", ['[1, "1..512", 8]', '"1x1..512x8"', '["1", "1..512", "8"]'])
def test_a_range_of_lengths_is_a_bounded_dimension(tmp_path: Path, shape: str) -> None:
    (tmp_path / "a.onnx").write_bytes(b"")
    (tmp_path / "app.toml").write_text(GOOD.replace("[1, 3, 8, 8]", f"{shape}, mask = [8, 8]"))
    first, second = read_application_file(tmp_path / "app.toml").networks

    assert first.bounds is None and second.bounds is not None
    assert second.bounds.shapes == {"x": (1, (1, 512, 1), 8), "mask": (8, 8)}
    assert second.shapes == {"x": (1, 512, 8), "mask": (8, 8)}


def test_networks_take_turns_in_the_order_that_is_given(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"")
    (tmp_path / "app.toml").write_text('order = ["b", "a"]\n' + GOOD)

    assert [(entry.name, entry.line) for entry in read_application_file(tmp_path / "app.toml").networks] == [
        ("b", 10),
        ("a", 5),
    ]


@pytest.mark.parametrize("order", ['["a"]', '["a", "b", "b"]', '["a", "c"]', '["a", 1]', "[[]]"])
def test_order_that_does_not_name_each_network_once(tmp_path: Path, order: str) -> None:
    with pytest.raises(
        MavcgError, match=r"app.toml: line 1: order(: .*the networks are a, b|\[.\]: .* is not a string)"
    ):
        read(tmp_path, f"order = {order}\n" + GOOD)


@pytest.mark.parametrize(
    "old, new, words",
    [
        ('"1.5 MB"', '"1.5"', 'line 1: memory: "1.5" is not a size'),
        ('"1.5 MB"', "3", "line 1: memory: 3 is not a string"),
        ("memory", "memry", "line 1: memry: no such key; did you mean memory?"),
        ('[["a", "b"]]', '["a"]', "line 2: parallel"),
        ('name = "b"', 'name = "a"', 'line 10: network[1].name: "a" is there already'),
        ('name = "b"\n', "", "line 9: network[1].name: missing"),
        ('"a.onnx"', '"c.onnx"', 'line 6: network[0].file: "c.onnx" does not exist'),
        ("20", "-1", "line 7: network[0].throughput: -1"),
        ("20", "true", "line 7: network[0].throughput: true is not a number"),
        ("mixed", "fp8", 'line 12: network[1].precision: "fp8"'),
        ("throughput = 20", 'weights = "fp16"', 'line 7: network[0].weights: "fp16" is not known; give f16 or bf16'),
        ("auto:2", "auto:1", 'line 13: network[1].partitions: "auto:1"'),
        ('"auto:2"', "[1]", "line 13: network[1].partitions[0]: 1 is not a string"),
        ("[1, 3, 8, 8]", "[0]", "line 14: network[1].shapes"),
        ("[1, 3, 8, 8]", '[1, "8..2", 8]', "line 14: network[1].shapes: x=1x8..2x8: the range 8..2 has no length"),
        ("[1, 3, 8, 8]", '"1x8..20:8x8"', "line 14: network[1].shapes: x=1x8..20:8x8: the range 8..20:8 has"),
        ("[1, 3, 8, 8]", f'[1, "1..{1 << 31}"]', "lengths are 0 to 2147483647"),
        ("[1, 3, 8, 8]", '[1, "1,2"]', 'line 14: network[1].shapes.x[1]: "1,2" is not a length from 1 on or a range'),
        ("[1, 3, 8, 8]", '"1x1,4x8"', 'line 14: network[1].shapes.x: "1x1,4x8" is not a shape'),
        ("throughput = 20", 'schedule = "a, [b"', 'line 7: network[0].schedule: "a, [b": column 6: a bracket is open'),
        (
            "throughput = 20",
            'schedule = ["a", "] x 2"]',
            "network[0].schedule: \"] x 2\": column 1: ']': does not close a bracket",
        ),
        ("throughput = 20", "schedule = []", "line 7: network[0].schedule: [] is not a schedule"),
        ("throughput = 20", "schedule = [1]", "line 7: network[0].schedule[0]: 1 is not a string"),
        ("= [[", "= [", "not TOML"),
        (
            "throughput = 20",
            "period_ms = 0",
            "line 7: network[0].period_ms: 0 is not a number of milliseconds, from 0.001",
        ),
        ("throughput = 20", "period_ms = nan", "line 7: network[0].period_ms: NaN is not"),
        ("throughput = 20", "period_ms = 1e300", "line 7: network[0].period_ms: 1e+300 is not"),
        ("throughput = 20", 'period_ms = "5"', 'line 7: network[0].period_ms: "5" is not a number'),
        ("throughput = 20", "deadline_ms = 5", "line 7: network[0].deadline_ms: is there without period_ms; give"),
        ("throughput = 20", "preemptible = false", "line 7: network[0].preemptible: is there without period_ms"),
        ("throughput = 20", 'samples = "s"', "line 7: network[0].samples: is there without precision; give precision"),
        ("mixed", 'int8"\nsamples = "', 'network[1].samples: "" is not a path'),
        ("throughput = 20", 'stages = ["cluster 0"]', "line 7: network[0].stages: are of partitions of a network with"),
        ("throughput = 20", 'stages = ["npu"]', 'line 7: network[0].stages[0]: "npu" is not a processor'),
        (
            "throughput = 20",
            "stages = [{ ms = 1 }]",
            'network[0].stages[0]: {"ms": 1} is not a processor; write it as "cluster 0"',
        ),
        ("throughput = 20", "period_ms = 5", "line 9: network[1].period_ms: missing, and other networks have one"),
    ],
)
def test_faults_are_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(MavcgError, match="app.toml") as error:
        read(tmp_path, GOOD.replace(old, new, 1))

    assert words in str(error.value)


PERIODS = """[[network]]
name = "a"
file = "a.onnx"
period_ms = 20
deadline_ms = 8.5

[[network]]
name = "b"
file = "a.onnx"
period_ms = 10
preemptible = false

[[network]]
name = "c"
file = "a.onnx"
period_ms = 5
"""


def test_networks_with_periods(tmp_path: Path) -> None:
    """Without priorities the shorter deadline is more urgent; b, the least urgent, runs whole and shares memory."""
    (tmp_path / "a.onnx").write_bytes(b"")
    (tmp_path / "app.toml").write_text('order = ["c", "a", "b"]\n' + PERIODS)
    file = read_application_file(tmp_path / "app.toml")

    assert [(p.period_ns, p.deadline_ns, p.priority, p.preemptible) for p in file.periods] == [
        (5_000_000, 5_000_000, 3, True),
        (20_000_000, 8_500_000, 2, True),
        (10_000_000, 10_000_000, 1, False),
    ]
    assert parallel_pairs(file) == {frozenset((0, 1))}


@pytest.mark.parametrize(
    "keys, words",
    [
        (["priority = 1", ""], "line 11: network[2].priority: missing, and other networks have one"),
        (["priority = 1", "priority = 1"], "line 15: network[2].priority: 1 is another network's; give each"),
        (["priority = -1", "priority = 1"], "network[1].priority: -1 is not a whole number from 0"),
        (["priority = 1.5", "priority = 1"], "network[1].priority: 1.5 is not a"),
    ],
)
def test_faults_of_priorities(tmp_path: Path, keys: list[str], words: str) -> None:
    tables = [
        f'[[network]]\nname = "{n}"\nfile = "a.onnx"\nperiod_ms = 2\n{own}\n' for n, own in zip("bc", keys, strict=True)
    ]
    text = "".join(['[[network]]\nname = "a"\nfile = "a.onnx"\nperiod_ms = 2\npriority = 0\n', *tables])
    with pytest.raises(MavcgError, match="app.toml") as error:
        read(tmp_path, text)
    assert words in str(error.value)


def test_no_networks(tmp_path: Path) -> None:
    for text in ("", "network = []\n", "network = [1]\n"):
        with pytest.raises(MavcgError, match="network: missing; add|network.0.: 1 is not a table"):
            read(tmp_path, text)
    with pytest.raises(MavcgError, match="cannot be read"):
        read_application_file(tmp_path / "none.toml")


PROGRAM = """[[network]]
name = "a"
file = "a.onnx"
period_ms = 20

[[network]]
name = "b"
program = "b.elf"
accelerator = "npu"
period_ms = 10
deadline_ms = 25
"""


def test_a_network_with_a_program_is_beside_the_librarys(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"")
    (tmp_path / "b.elf").write_bytes(b"")
    (tmp_path / "app.toml").write_text(PROGRAM)
    file = read_application_file(tmp_path / "app.toml")
    (own,) = file.programs
    assert [entry.name for entry in file.networks] == ["a"] and len(file.periods) == 1
    assert (own.name, own.program, own.accelerator, own.slots) == ("b", tmp_path / "b.elf", "npu", 3)
    first, second = own.periodic, file.networks[0].periodic
    assert first is not None and second is not None
    assert (first.priority, second.priority) == (1, 2)  # the shorter deadline first


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ('"b.elf"', '"c.elf"', 'line 8: network[1].program: "c.elf" does not exist; make it by `mavcg accel build`'),
        ("deadline_ms = 25", "throughput = 5", "line 11: network[1].throughput: is there with a program; of a program"),
        ("deadline_ms = 25", 'file = "a.onnx"', "line 11: network[1].file: is there with a program"),
        ("deadline_ms = 25", "preemptible = true", "line 11: network[1].preemptible: is there with a program"),
        ('file = "a.onnx"', 'accelerator = "npu"', "line 1: network[0].file: missing; name an .onnx"),
        ('file = "a.onnx"', 'file = "a.onnx"\naccelerator = "n"', "network[0].accelerator: is there without a program"),
        ('file = "a.onnx"', 'file = "a.onnx"\nparts_ms = [1]', "network[0].parts_ms: is there without a program"),
        ("deadline_ms = 25", "parts_ms = [1, -1]", "network[1].parts_ms[1]: -1 is not a number of milliseconds"),
        ('file = "a.onnx"', 'program = "b.elf"', "network: all have programs; add one with a file"),
        ("period_ms = 20\n", "", "network[0].period_ms: missing, and other networks have one"),
    ],
)
def test_bad_programs_are_named(tmp_path: Path, old: str, new: str, wrong: str) -> None:
    (tmp_path / "b.elf").write_bytes(b"")
    with pytest.raises(MavcgError) as raised:
        read(tmp_path, PROGRAM.replace(old, new, 1))
    assert wrong in str(raised.value)
