"""Output of boards: facts of the machine, which come after a line `facts`, or lines of the measuring program."""

from fuzz.mutation import mutator
from fuzz.mutation.lines import changed_lines
from fuzz.mutation.trees import json_mutator
from fuzz.targets import call_target

PACKAGES = ("mavcg.lab.runners.facts", "mavcg.lab.runners.bench_lines", "mavcg.profiles.board_files")
_FACTS = b"facts\n"
_KEYS = "job warm cold turns machine end fault ns lost runs mc khz"
_WORDS = "@@mavcg :arch 0-3 - proc/cpuinfo sys/devices/system/cpu ../x 0x41 \u00b2"
_lines = json_mutator(_KEYS, lines=True)


def _change(source, data: bytes) -> bytes:  # type: ignore[no-untyped-def]
    if data.startswith(_FACTS):
        text = data.removeprefix(_FACTS).decode("utf-8", "replace")
        return _FACTS + changed_lines(source, text, _WORDS.split()).encode("utf-8", "replace")
    return _lines(data, len(data) + 4096, source.randrange(1 << 30))


mutate = mutator(_change)


def run(data: bytes) -> None:
    """Read the facts, or each line as one of a program of three jobs on CPU 0 of a Cortex-A55."""
    text = data.removeprefix(_FACTS).decode("utf-8", "replace")
    call_target(lambda: _read_facts(text) if data.startswith(_FACTS) else _read_lines(text))


def _read_facts(text: str) -> None:
    from mavcg.lab.runners.facts import facts_of

    facts = facts_of(text)
    assert all(cpu.cpu >= 0 for cpu in facts.cpus)


def _read_lines(text: str) -> None:
    from mavcg.lab.runners.bench_lines import BenchLineReader
    from mavcg.profiles.load import load_core

    results: list[object] = []
    reader = BenchLineReader("the board", 3, 0, load_core("cortex-a55"), results.append)
    for line in text.split("\n"):
        reader(line)
    assert len(results) == len(reader.seen)
