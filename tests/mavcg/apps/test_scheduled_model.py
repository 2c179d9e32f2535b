"""Schedules of app.toml in a library's program: the order of its phases, and windows that hold what it needs."""

from pathlib import Path

import pytest

from mavcg.apps.application_file import read_application_file
from mavcg.apps.library_plan import scheduled_model
from mavcg.choose.plan import Plan
from mavcg.errors import MavcgError
from mavcg.model.model_request import ModelRequest
from mavcg.model.stages import plan_model
from mavcg.specs.model_program import Program
from mavcg.toolchain.target import host_target
from tests.mavcg.apps.small_networks import write_network

LAYERS = "transpose:transpose, {head}, y, y:reshape"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan]:
    pytest.importorskip("onnx")
    folder = tmp_path_factory.mktemp("scheduled")
    model = write_network(folder / "net.onnx", 8, 24, 0)
    request = ModelRequest(model, folder / "libnet.so", host_target(), (), max_error=0, image_rows=True)
    return folder, plan_model(request, "net", lambda message: None)


def program_of(prepared: tuple[Path, Plan], schedule: str) -> Program:
    folder, model = prepared
    text = f'[[network]]\nname = "net"\nfile = "net.onnx"\nschedule = "{schedule}"\n'
    (folder / "app.toml").write_text(text)
    (entry,) = read_application_file(folder / "app.toml").networks
    return scheduled_model(entry, model).program


def order_of(program: Program) -> list[tuple[str, int, int]]:
    """The layers' phases: (node, first row, rows); what the engine does beside them is left out."""
    kinds = ("conv2d", "reduce_mean")
    phases = [phase for phase in program.phases if not phase.moved_bytes]
    return [
        (program.steps[phase.step].name, phase.first_row, phase.rows)
        for phase in phases
        if program.steps[phase.step].op in kinds
    ]


def test_rows_run_in_the_order_that_is_given(prepared: tuple[Path, Plan]) -> None:
    program = program_of(prepared, LAYERS.format(head="[a:conv2d, a:conv2d, c:conv2d] x 12"))
    expected = []
    for row in range(12):
        expected += [("a", 2 * row, 1), ("a", 2 * row + 1, 1), ("c", row, 1)]
    assert order_of(program)[:-1] == expected
    late = program_of(prepared, LAYERS.format(head="[a:conv2d] x 24, [c:conv2d] x 12"))
    assert order_of(late)[:-1] == [("a", row, 1) for row in range(24)] + [("c", row, 1) for row in range(12)]
    whole = program_of(prepared, LAYERS.format(head="a:conv2d, c:conv2d"))
    assert [(name, rows) for name, _, rows in order_of(whole)] == [("a", 24), ("c", 12), ("y", 1)]
    assert program.arena_bytes < late.arena_bytes <= whole.arena_bytes


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("[c:conv2d, a:conv2d, a:conv2d] x 12", "line 4: network.0..schedule: .*change the order"),
        ("[a:conv2d, c:conv2d] x 12", "'a:conv2d' runs 12 times; let it run once, or 24 times, by rows"),
        ("[a:conv2d, b, c:conv2d] x 12", "'b' is not a layer of net; did you mean"),
        ("a:conv2d", "layer 'c:conv2d' of net is missing; add it"),
    ],
)
def test_schedules_that_cannot_be(prepared: tuple[Path, Plan], head: str, words: str) -> None:
    with pytest.raises(MavcgError, match=words):
        program_of(prepared, LAYERS.format(head=head))
