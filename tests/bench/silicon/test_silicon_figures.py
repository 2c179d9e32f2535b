"""The lists of published figures: read, drawn into the lot, and refused where they are wrong."""

from pathlib import Path

import pytest

from bench.silicon.compare import instruction_cycles
from bench.silicon.figures import BLIND, Figure, blind_projects, read_list, read_lists
from mavcg.errors import MavcgError


def all_figures() -> list[Figure]:
    return [figure for source in read_lists() for figure in source.figures]


def test_the_lists_hold_what_issue_18_asks_for() -> None:
    figures = all_figures()
    of_kernels = [figure for figure in figures if figure.kind != "instruction" and not figure.reason]
    assert len(of_kernels) >= 300 and len({figure.core for figure in of_kernels}) >= 8
    assert {"cortex-a53", "cortex-a55", "cortex-a72", "cortex-a73", "cortex-a510", "neoverse-v1"} <= {
        figure.core for figure in of_kernels
    }
    assert all(figure.value > 0 and figure.published for figure in figures)


def test_the_lot_takes_whole_kernels_and_none_that_was_seen() -> None:
    figures = [figure for figure in all_figures() if figure.kind != "instruction"]
    drawn = {figure.name: figure.held_out for figure in figures if not figure.seen}
    assert all(drawn[figure.name] == figure.held_out for figure in figures if not figure.seen)
    assert not any(figure.held_out for figure in figures if figure.seen)
    assert 0.2 < sum(drawn.values()) / len(drawn) < 0.4


def test_calls_are_those_of_checkasm() -> None:
    (figure,) = [
        figure
        for figure in all_figures()
        if (figure.name, figure.core, figure.when) == ("avg_w8_8bpc", "cortex-a53", "after")
        and "0bad117e" in figure.published
    ]
    assert figure.value == 142.8
    assert [call.arguments for call in figure.calls] == [
        f"buf:131072 i:8 buf:32768 buf:32768 i:8 i:{height} i:255" for height in (4, 8, 16, 32)
    ]
    assert {call.symbol for call in figure.calls} == {"dav1d_avg_8bpc_neon"}


def test_early_benchmarks_have_rows_side_by_side_and_heights_that_double() -> None:
    """dav1d's 4679305e gave the rows of mc's source a pitch of 135 pixels, 7d5f0d0c added heights between."""
    name = "mc_8tap_regular_w4_v_8bpc"
    figures = [figure for figure in all_figures() if figure.name == name and figure.core == "cortex-a53"]

    def pitches_and_heights(commit: str) -> set[tuple[tuple[str, str], ...]]:
        rows = [figure for figure in figures if commit in figure.published]
        return {tuple((a.split()[3], a.split()[5]) for a in (c.arguments for c in row.calls)) for row in rows}

    assert pitches_and_heights("fc5a3728") == {tuple(("i:4", f"i:{height}") for height in (2, 4, 8, 16, 32))}
    assert pitches_and_heights("ac65139e") == {
        tuple(("i:135", f"i:{height}") for height in (2, 4, 6, 8, 12, 16, 24, 32))
    }


def test_a_table_says_which_coefficient_its_benchmark_drew() -> None:
    """checkasm draws the last coefficient: in one table all three cores did half of the work of 8x8 rows elsewhere."""
    name = "inv_txfm_add_8x8_dct_dct_1_10bpc"
    rows = [figure for figure in all_figures() if figure.name == name and figure.core == "cortex-a53"]
    last = {("6f9f3391" in figure.published): figure.calls[0].arguments.split()[3] for figure in rows}
    assert last == {True: "i:5", False: "i:32"}
    assert next(source for source in read_lists() if source.name == "dav1d").in_a_row == 4


def test_a_ratio_has_the_commit_before_it() -> None:
    figure = next(figure for figure in all_figures() if figure.kind == "ratio")
    assert {f"{call.commit}~1" for call in figure.calls} == {call.commit for call in figure.before}


def test_speedups_over_one_function_give_ratios_of_two_others_at_the_same_commit() -> None:
    name = "mc_mct_8tap_sharp_w8_h_8bpc"
    found = {
        figure.name: figure
        for figure in all_figures()
        if figure.core == "cortex-a510" and "1776c45a" in figure.published and figure.name.startswith(name)
    }
    # The message has 3.10x for Neon, 4.94x for dot products and 5.70x for matrix products.
    assert {key: figure.value for key, figure in found.items()} == {
        f"{name}_dotprod": 0.6275,
        f"{name}_i8mm": 0.8667,
    }
    faster = found[f"{name}_i8mm"]
    # Whether put or prep was timed is not said: the calls are those of both.
    assert {call.symbol for call in faster.calls} == {
        "dav1d_put_8tap_sharp_8bpc_neon_i8mm",
        "dav1d_prep_8tap_sharp_8bpc_neon_i8mm",
    }
    assert {call.symbol for call in faster.before} == {
        "dav1d_put_8tap_sharp_8bpc_neon_dotprod",
        "dav1d_prep_8tap_sharp_8bpc_neon_dotprod",
    }
    assert {call.commit for call in (*faster.calls, *faster.before)} == {"1776c45a"}


def test_a_function_keeps_the_name_that_it_had_in_older_commits() -> None:
    figure = next(f for f in all_figures() if f.name.startswith("inv_txfm_add_8x8_dct_dct") and "8bpc" in f.name)
    assert {(call.symbol, call.former) for call in figure.calls} == {
        ("dav1d_inv_txfm_add_dct_dct_8x8_8bpc_neon", "dav1d_inv_txfm_add_dct_dct_8x8_neon")
    }


KERNELS = """
name      = "made"
url       = "https://example.org/made"
published = "this test"

[[kernel]]
name      = "permutation"
commit    = "HEAD"
files     = "a.s"
symbol    = "permute"
arguments = "buf:4096"
cycles    = { cortex-a55 = 1418, cortex-a510 = 968 }

[[loop]]
name         = "fmla 4s, ns4"
form         = "fmla v{d}.4s, v8.4s, v{s}.4s"
destinations = 8
instructions = 40
per_cycle    = { cortex-a72 = 0.5 }
"""


def test_kernels_may_have_cycles_and_loops_share_theirs_with_the_counting(tmp_path: Path) -> None:
    path = tmp_path / "made.toml"
    path.write_text(KERNELS)
    first, second, loop = read_list(path).figures
    assert [(each.kind, each.core, each.value) for each in (first, second)] == [
        ("cycles", "cortex-a55", 1418),
        ("cycles", "cortex-a510", 968),
    ]
    lines = [line.strip() for line in loop.code.splitlines()]
    assert (loop.kind, len(lines)) == ("instruction", 42)
    assert lines[:5] == [f"fmla v{n}.4s, v8.4s, v{(n + 4) % 8}.4s" for n in range(5)] and lines[8] == lines[0]
    assert loop.value == pytest.approx(80 / 42)
    # Four chains of an A72, whose fmla takes 7 cycles: 0.57 a cycle, which its log has, too.
    assert instruction_cycles(loop) == pytest.approx(70 / 42, rel=0.01)


@pytest.mark.parametrize(
    "text", ["", "name = 'x'", "name = 'x'\nurl = 'y'\npublished = 'z'\n[[kernel]]\nname = 'k'\n", "["]
)
def test_a_wrong_list_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(MavcgError, match=r"wrong\.toml: not a list of silicon figures"):
        read_list(path)


BLIND_MADE = """
[[project]]
name = "made"
url  = "https://example.org/made"
why  = "this test"
"""


def test_a_blind_project_is_held_out_whole(tmp_path: Path) -> None:
    (tmp_path / "made.toml").write_text(KERNELS)
    figures = [figure for source in read_lists(tmp_path) for figure in source.figures]
    assert figures and not any(figure.blind for figure in figures)
    (tmp_path / BLIND).write_text(BLIND_MADE)
    (source,) = read_lists(tmp_path)
    assert source.figures and all(figure.blind and not figure.held_out for figure in source.figures)


def test_a_blind_project_whose_figures_were_fitted_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "made.toml").write_text(KERNELS.replace('symbol    = "permute"', 'symbol    = "permute"\nseen = true'))
    (tmp_path / BLIND).write_text(BLIND_MADE)
    with pytest.raises(MavcgError, match="made: a figure is `seen`"):
        read_lists(tmp_path)


@pytest.mark.parametrize("text", ["", "[[project]]\nname = 'x'\nurl = 'y'\n", "["])
def test_a_wrong_list_of_blind_projects_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    (tmp_path / BLIND).write_text(text)
    with pytest.raises(MavcgError, match=r"blind\.toml: not a list of \[\[project\]\]"):
        read_lists(tmp_path)


def test_no_fact_of_a_core_cites_a_blind_project() -> None:
    """A source that names one would say that the fact was fitted to it."""
    cores = Path(__file__).resolve().parents[3] / "profiles/cores"
    texts = {path.name: path.read_text(encoding="utf-8").lower() for path in sorted(cores.glob("*.toml"))}
    projects = blind_projects()
    assert len(projects) >= 6
    assert not [(name, project) for name, text in texts.items() for project in projects if project in text]
