"""Profiles as text or JSON: callgrind, simpleperf, perf report, perf script and mavcg's own, known by their content."""

from fuzz.mutation.lines import line_mutator
from fuzz.targets import call_target
from fuzz.targets._files import file_with

PACKAGES = ("mavcg.program.profiling",)
mutate = line_mutator(
    "fn=(1) cfn=(2) calls=2 30 fl= events: Ir positions: +3 -1 * 60.00% [.] cycles:u: [001] (inlined) "
    'Overhead,Sample # Samples 0x10 { "functions"'
)
_MAGICS = (b"PERFILE2", b"2ELIFREP")


def run(data: bytes) -> None:
    """Read the profile and rank its functions."""
    from mavcg.program.profiling.load import load_profile
    from mavcg.program.profiling.ranking import hot, rank

    if data.startswith(_MAGICS):  # perf itself reads these: a process each
        return
    path = file_with(data, "profile")

    def read() -> None:
        profile = load_profile(path)
        known = {(function.symbol, function.object) for function in rank(profile)}
        assert all((function.symbol, function.object) in known for function in hot(profile))

    call_target(read)
