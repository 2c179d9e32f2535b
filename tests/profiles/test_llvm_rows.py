"""scripts/llvm_rows.py, run as somebody who adds a core runs it."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mavcg.hardware.instr_classes import CLASSES
from mavcg.hardware.timing import UnitUse
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing

SCRIPT = Path(__file__).parents[2] / "scripts/llvm_rows.py"
needs_mca = pytest.mark.skipif(shutil.which("llvm-mca-22") is None, reason="needs llvm-mca-22 (apt install llvm-22)")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


@needs_mca
@pytest.mark.parametrize(("name", "options"), [("cortex-a57", ()), ("exynos-m4", ()), ("cortex-a510", ("--in-order",))])
def test_rows_are_those_of_the_core_file(name: str, options: tuple[str, ...]) -> None:
    ours = load_timing(load_core(name))

    printed = tomllib.loads("[issue]\n" + run(name, *options).stdout)

    rows = {each: row for names, row in printed["instr"].items() for each in names.split()}
    modelled = {each: row for each, row in ours.classes.items() if row.source.endswith("td")}
    assert len(modelled) > 90 and set(modelled) <= set(rows) <= set(CLASSES)
    for each, row in modelled.items():
        units = tuple(
            UnitUse(tuple(text.split(":")[0].split("|")), int((text + ":1").split(":")[1]))
            for text in rows[each]["units"]
        )
        assert (row.latency, row.per_cycle, row.units) == (rows[each]["latency"], rows[each]["per_cycle"], units), each
    assert printed["issue"]["pools"]["value"] == ours.pools and printed["issue"]["width"]["value"] == ours.width


@needs_mca
def test_classes_can_be_left_out() -> None:
    printed = run("neoverse-n1", "--without", "fmla_q,ldr_q", "--width", "4").stdout

    assert "fmla_lane_q" in printed and "fmla_q " not in printed.split("[forward]")[0].replace("fmla_lane_q", "")
    assert "width = { value = 4," in printed


def test_what_is_wrong_is_said_in_one_line() -> None:
    missing = run("cortex-a57", "--mca", "no-such-llvm-mca")
    unknown = run("cortex-a57", "--without", "fmla_qq")

    assert missing.returncode == unknown.returncode == 1
    assert missing.stderr == (
        "no-such-llvm-mca: No such file or directory; install LLVM 22, or name its llvm-mca by --mca\n"
    )
    assert unknown.stderr == "--without: no such class: fmla_qq\n"
