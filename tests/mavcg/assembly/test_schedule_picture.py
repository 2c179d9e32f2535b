"""Pictures of schedules: every op and stall is there, text stays plain, SVG is valid whatever the names hold."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.assembly.schedule_grid import schedule_rows
from mavcg.assembly.schedule_picture import as_svg, as_text
from mavcg.hardware.instr_classes import CLASSES
from mavcg.hardware.timing import ClassTiming, Timing, UnitUse
from mavcg.passes.asm.isa.op import Op, RegisterRead
from mavcg.passes.asm.models.estimate import LoopEstimate, estimate_block, estimate_loop
from tests.conftest import examples

_SVG = "{http://www.w3.org/2000/svg}"


def _core(order: str) -> Timing:
    rows = {
        "ldr_d": ClassTiming("ldr_d", 3, 1.0, (UnitUse(("load",)),)),
        "ldr_q": ClassTiming("ldr_q", 4, 0.5, (UnitUse(("load",), 2),), blocks=2),
        "alu": ClassTiming("alu", 1, 2.0, (UnitUse(("alu",)),)),
        "fmla_q": ClassTiming("fmla_q", 4, 1.0, (UnitUse(("vec",)),)),
        "branch": ClassTiming("branch", 1, 1.0),
    }
    return Timing("some-core", order, 2, {"load": 1, "alu": 2, "vec": 1}, rows)


IN, OUT = _core("in"), _core("out")
LOAD = Op("ldr d0, [x0]", "ldr_d", (RegisterRead("x0", "addr"),), ("v0",))
ADD = Op("add x0, x0, #8", "alu", (RegisterRead("x0"),), ("x0",))
FMLA = Op("fmla v8.4s, v0.4s, v1.4s", "fmla_q", (RegisterRead("v0"), RegisterRead("v1")), ("v8",))
BRANCH = Op("b.ne .Lloop", "branch_cond", (RegisterRead("nzcv"),))
LOOP = [LOAD, ADD, FMLA, BRANCH]


def _body(text: str) -> list[str]:
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.lstrip().startswith("cycle"))
    found = lines[start + 1 :]
    return found[: found.index("")] if "" in found else found


class TestText:
    def test_a_row_per_cycle_with_its_stalls(self) -> None:
        text = as_text(estimate_loop(LOOP, IN))
        assert text.startswith("some-core: 4 cycles per iteration by the in-order model (a prediction, not a measure")
        rows = _body(text)
        assert [row.split()[0] for row in rows] == ["0", "1", "2", "3"]
        assert "ldr d0, [x0]" in rows[0] and "add x0" in rows[0]
        for stall in rows[1:3]:
            assert stall.count("** stall **") == 2
            assert stall.endswith("waits for v0 from `ldr d0, [x0]`")
        assert "fmla" in rows[3] and "b.ne" in rows[3]
        assert "4.00 slots,   2.00 stall cycles  fmla" in text

    def test_the_schedule_closes_on_itself(self) -> None:
        # Three adds on two slots: the second iteration starts beside the end of the first, the third beside its end.
        adds = [Op(f"add x{n}, x9, #1", "alu", (RegisterRead("x9"),), (f"x{n}",)) for n in range(3)]
        estimated = estimate_loop([LOAD, *adds], IN)
        rows = schedule_rows(estimated)
        shown = sorted(cell.op.text for row in rows for cell in row.cells if cell.op is not None)
        assert shown == sorted(issued.text for issued in [LOAD, *adds] * (len(estimated.issues) // 4))

    def test_iterations_are_told_apart(self) -> None:
        adds = [Op(f"add x{n}, x9, #1", "alu", (RegisterRead("x9"),), (f"x{n}",)) for n in range(3)]
        text = as_text(estimate_loop(adds, IN))
        assert "1.5 cycles per iteration" in text
        assert text.count("add x0") == 2
        assert "-- iteration 2 --" in text

    def test_an_end_that_shares_the_first_cycle_is_marked(self) -> None:
        # The load of the next iteration issues beside the second fmla of this one.
        products = [Op(f"fmla v{n}.4s, v9.4s, v9.4s", "fmla_q", (RegisterRead("v9"),), (f"v{n}",)) for n in (4, 5)]
        rows = _body(text := as_text(estimate_loop([LOAD, *products], IN)))
        assert [" ".join(row.split()) for row in rows] == [
            "0 ^ fmla v5.4s, v9.4s, v9.4s ldr d0, [x0]",
            "1 fmla v4.4s, v9.4s, v9.4s -- vec unit busy",
        ]
        assert text.endswith("\n^ the end of the iteration before\n")

    def test_a_block(self) -> None:
        estimated = estimate_block([LOAD, FMLA], IN)
        rows = _body(as_text(estimated))
        assert len(rows) == 4
        assert rows[-1].split() == ["3", "fmla", "v8.4s,", "v0.4s,", "v1.4s", "--"]

    def test_plain_text_has_no_codes_and_colour_only_adds_them(self) -> None:
        estimated = estimate_loop(LOOP, IN)
        plain, coloured = as_text(estimated), as_text(estimated, colour=True)
        assert plain.isascii()
        assert "\x1b" not in plain
        assert "\x1b[33mldr d0" in coloured
        without = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
        assert [line.rstrip() for line in without.splitlines()] == plain.splitlines()

    def test_pressure(self) -> None:
        text = as_text(estimate_loop(LOOP, OUT))
        assert "2 cycles per iteration by the port-bound model (a prediction" in text
        assert re.search(r"^dispatch +#{32} +2\.00 +100%$", text, re.MULTILINE)
        assert re.search(r"^load +#{16}\.{16} +1\.00 +50%$", text, re.MULTILINE)
        assert re.search(r"^  ldr d0, \[x0\] +load 1\.00$", text, re.MULTILINE)
        assert re.search(r"^  b\.ne \.Lloop +no unit$", text, re.MULTILINE)

    def test_ops_that_make_the_bound_are_marked(self) -> None:
        text = as_text(estimate_loop([FMLA, FMLA, LOAD], OUT))
        assert "* fmla" in text
        assert "* makes the bound: units" in text


def _titles(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{_SVG}title")]


def _texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{_SVG}text")]


class TestSvg:
    def test_every_op_is_readable_and_explained(self) -> None:
        svg = as_svg(estimate_loop(LOOP, IN), "dot product")
        texts = _texts(svg)
        for op in LOOP:
            assert any(op.text in text for text in texts)
            assert any(op.text in title and op.op_class in title for title in _titles(svg))
        assert texts[0] == "dot product"
        assert "waits for v0 from `ldr d0, [x0]`" in texts
        assert _titles(svg).count("cycle 1, slot 0: stall: waits for v0 from `ldr d0, [x0]`") == 1

    def test_stalls_are_drawn_apart(self) -> None:
        svg = as_svg(estimate_loop(LOOP, IN), "t")
        assert svg.count('fill="url(#stall)"') == 2 * 2 + 1  # two cycles of two slots, and the legend
        patterns = [node.get("id") for node in ElementTree.fromstring(svg).iter(f"{_SVG}pattern")]
        assert patterns == ["stall", "empty"]

    def test_the_legend_names_the_families_that_are_there(self) -> None:
        texts = _texts(as_svg(estimate_loop(LOOP, IN), "t"))
        assert {"integer", "branch", "load", "vector"} <= set(texts)
        assert not {"store", "fp"} & set(texts)

    @pytest.mark.parametrize("timing", [IN, OUT], ids=["in-order", "out-of-order"])
    @pytest.mark.parametrize("estimate", [estimate_loop, estimate_block])
    def test_everything_lies_inside(self, timing: Timing, estimate: object) -> None:
        assert callable(estimate)
        root = ElementTree.fromstring(as_svg(estimate(LOOP * 6, timing), "a title"))
        width, height = float(root.get("width", 0)), float(root.get("height", 0))
        body = root.find(f"{_SVG}g")
        assert body is not None and body.get("transform") == "translate(0 80)"
        boxes = [node for node in body.iter(f"{_SVG}rect")]
        assert len(boxes) > 20
        for box in boxes:
            x, y = float(box.get("x", 0)), float(box.get("y", 0))
            assert 0 <= x and x + float(box.get("width", 0)) <= width
            assert 0 <= y and y + float(box.get("height", 0)) + 80 <= height

    def test_bars_of_pressure_are_to_scale(self) -> None:
        estimated = estimate_loop([FMLA, FMLA, LOAD], OUT)
        root = ElementTree.fromstring(as_svg(estimated, "t"))
        widths = {}
        for group in root.iter(f"{_SVG}g"):
            title, rect = group.find(f"{_SVG}title"), group.find(f"{_SVG}rect")
            if title is not None and rect is not None and title.text:
                widths[title.text] = float(rect.get("width", 0))
        assert widths["vec: vector 2.00 cycles"] == pytest.approx(2 * widths["load: load 1.00 cycles"])
        assert widths["units: 2.00 cycles"] == pytest.approx(widths["vec: vector 2.00 cycles"])

    @pytest.mark.parametrize("timing", [IN, OUT], ids=["in-order", "out-of-order"])
    def test_no_ops(self, timing: Timing) -> None:
        for found in (estimate_loop([], timing), estimate_block([], timing)):
            ElementTree.fromstring(as_svg(found, "nothing"))
            assert "0 cycles" in as_text(found)

    @given(text=st.text(max_size=30), title=st.text(max_size=30), order=st.sampled_from(["in", "out"]))
    @settings(max_examples=examples(150, 19))
    def test_any_text_is_escaped(self, text: str, title: str, order: str) -> None:
        op = Op(text, "alu", (RegisterRead("x0"),), ("x0",))
        root = ElementTree.fromstring(as_svg(estimate_loop([op], {"in": IN, "out": OUT}[order]), title))
        assert root.tag == f"{_SVG}svg"
        if re.fullmatch(r"[\x20-\x7e]+", title):
            assert root.get("aria-label") == title

    def test_written_and_read_back(self, tmp_path: Path) -> None:
        path = tmp_path / "schedule.svg"
        path.write_text(as_svg(estimate_loop(LOOP, IN), "a < b & c"), encoding="utf-8")
        root = ElementTree.parse(path).getroot()
        assert root.findtext(f"{_SVG}title") == "a < b & c"


_OPS = st.lists(
    st.builds(
        lambda name, read, write: Op(CLASSES[name].example, name, (RegisterRead(read),), (write,)),
        st.sampled_from(["alu", "ldr_d", "ldr_q", "fmla_q", "branch"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["a", "b", "c"]),
    ),
    min_size=1,
    max_size=8,
)


@given(ops=_OPS)
@settings(max_examples=examples(100, 13))
def test_every_issue_has_its_cell_and_every_empty_slot_its_reason(ops: list[Op]) -> None:
    estimated: LoopEstimate = estimate_loop(ops, IN)
    rows = schedule_rows(estimated)
    cells = [cell for row in rows for cell in row.cells]
    assert len(rows) == estimated.period_cycles
    assert sum(cell.op is not None for cell in cells) == len(estimated.issues)
    assert all(cell.op is not None or cell.wait is not None for cell in cells)
