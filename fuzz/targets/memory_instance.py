"""Memory planning problems as CSV, read and placed by a short search."""

from fuzz.mutation.lines import line_mutator
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = ("mavcg.memory.instance_file", "mavcg.memory.placement_search")
_MOST_BUFFERS = 40  # that are placed: a search of more takes seconds
mutate = line_mutator('id lower upper size buffer start end , " -1 1099511627776')


def run(data: bytes) -> None:
    """Read the problem; no two buffers that live together share a byte."""
    from mavcg.memory.instance_file import read_instance, solve_instance
    from mavcg.memory.placement_search import SearchLimits

    path = file_with(data, "problem.csv")

    def read() -> None:
        buffers = read_instance(path)
        if not 0 < len(buffers) <= _MOST_BUFFERS:
            return
        solution = solve_instance(buffers, SearchLimits(seconds=0.2, nodes=2000))
        placed = [(buffers[name], at) for name, at in solution.offsets.items()]
        for number, (one, at) in enumerate(placed):
            for other, there in placed[:number]:
                apart = one.end <= other.first or other.end <= one.first
                assert apart or at + one.size <= there or there + other.size <= at, "buffers overlap"

    call_target(read)
