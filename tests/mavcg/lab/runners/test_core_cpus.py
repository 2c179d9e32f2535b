"""Which CPU stands for a core, and what a machine is told apart from its board's file by."""

from dataclasses import replace
from pathlib import Path

import pytest

from mavcg.lab.runners.core_cpus import cpus_of, differences, hints
from mavcg.lab.runners.facts import CpuFacts, MachineFacts, facts_of
from mavcg.lab.runners.open import open_runner
from mavcg.lab.runners.transport import RunnerError
from mavcg.profiles.load import load_board

BOARDS = Path(__file__).parents[3] / "boards"
S10 = load_board("exynos9820")


def recorded(name: str) -> MachineFacts:
    with open_runner("local") as runner:
        return replace(runner.facts(str(BOARDS / name)), arch="aarch64")


@pytest.fixture(scope="module")
def phone() -> MachineFacts:
    return recorded("exynos9820")


def changed(facts: MachineFacts, cpus: tuple[int, ...], **values: object) -> MachineFacts:
    return replace(
        facts,
        cpus=tuple(replace(cpu, **values) if cpu.cpu in cpus else cpu for cpu in facts.cpus),  # type: ignore[arg-type]
    )


def test_the_last_cpu_of_a_cluster_stands_for_it(phone: MachineFacts) -> None:
    assert [cpus_of(phone, S10, core, "x") for core in S10.cores] == [((3,), ""), ((5,), ""), ((7,), "")]
    assert cpus_of(changed(phone, (3,), online=False), S10, "cortex-a55", "x") == ((2,), "")
    assert cpus_of(changed(phone, (2, 3), allowed=False), S10, "cortex-a55", "x") == ((1,), "")
    assert cpus_of(phone, S10, "generic", "x") == ((7,), "")


def test_threads_take_the_last_cpus(phone: MachineFacts) -> None:
    assert cpus_of(phone, S10, "cortex-a55", "x", 3) == ((3, 2, 1), "")
    with pytest.raises(RunnerError, match="x: --threads 3: has 2 exynos-m4 that programs may use"):
        cpus_of(phone, S10, "exynos-m4", "x", 3)


def test_a_cpu_that_does_not_say_what_it_is_is_taken_at_the_boards_word(phone: MachineFacts) -> None:
    cpus, warning = cpus_of(changed(phone, (6, 7), core=None), S10, "exynos-m4", "adb:R58M")
    assert cpus == (7,) and warning == "adb:R58M: does not say what CPU 7 is: exynos-m4 at the word of exynos9820"


@pytest.mark.parametrize(
    ("cpus", "values", "words"),
    [
        ((6, 7), {"online": False}, "CPUs 6-7: exynos-m4, switched off; switch one on"),
        ((6, 7), {"allowed": False}, "CPUs 6-7: exynos-m4, not allowed to programs"),
        ((6, 7), {"core": "cortex-a75"}, "has no exynos-m4 .cores there: cortex-a55, cortex-a75."),
    ],
)
def test_a_core_that_cannot_be_had(
    phone: MachineFacts, cpus: tuple[int, ...], values: dict[str, object], words: str
) -> None:
    with pytest.raises(RunnerError, match=words):
        cpus_of(changed(phone, cpus, **values), S10, "exynos-m4", "x")


def test_a_board_is_as_its_file_says(phone: MachineFacts) -> None:
    assert differences(phone, S10) == ()


def test_another_board_is_told(phone: MachineFacts) -> None:
    told = differences(recorded("rk3588"), S10)
    assert "CPUs 0-3: up to 1.80 GHz here, 1.95 on exynos9820" in told
    assert "CPUs 4-5: cortex-a76 here, cortex-a75 on exynos9820" in told
    assert "CPUs 6-7: cortex-a76 here, exynos-m4 on exynos9820" in told
    assert differences(replace(phone, arch="x86_64"), S10) == ("is x86_64, and exynos9820 is aarch64",)
    fewer = replace(phone, cpus=phone.cpus[:6])
    assert differences(fewer, S10) == ("has no CPUs 6-7, which exynos9820 has (exynos-m4)",)
    more = replace(phone, cpus=(*phone.cpus, CpuFacts(8, None, "")))
    assert differences(more, S10) == ("has CPU 8, which exynos9820 has not",)
    assert differences(changed(phone, (0,), core=None), S10) == (
        "CPU 0: of no known core here, cortex-a55 on exynos9820",
    )


def test_hints_say_what_makes_figures_worse(phone: MachineFacts) -> None:
    assert hints(phone) == ()
    hot = replace(phone, celsius=(("battery", 31.0), ("big", 71.4), ("nothing", 255.0)))
    assert hints(hot) == ("big: 71 degrees; let it cool down first",)
    held = changed(phone, (6, 7), limit_khz=1365000)
    assert hints(held) == ("CPUs 6-7: held to 50% of the clock, by heat or by a limit; let it cool",)
    (governed,) = hints(changed(phone, (0, 1), governor="schedutil"))
    assert governed.startswith("CPUs 0-1: governor 'schedutil'")
    assert hints(changed(phone, (0,), governor="performance")) == ()
    assert hints(changed(phone, (4,), online=False)) == ("CPU 4: switched off",)
    assert hints(changed(phone, (4,), allowed=False))[0].startswith("CPU 4: not allowed")


TOLD = """
@@mavcg :arch
aarch64

@@mavcg :system
Linux 4.14.113

@@mavcg :product
SM-G973F

@@mavcg :free
Filesystem 1024-blocks Used Available Capacity Mounted on
/dev/dm-1 100 40 60 40% /data

@@mavcg sys/devices/system/cpu/present
0-1

@@mavcg sys/devices/system/cpu/cpu1/regs/identification/midr_el1
0x00000000411fd050

@@mavcg sys/devices/system/cpu/cpu1/cpufreq/scaling_governor
schedutil

@@mavcg sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq
442000

@@mavcg proc/self/status
Name:\tcat
Cpus_allowed_list:\t1

@@mavcg proc/meminfo
MemTotal:        7500000 kB
MemAvailable:    2000000 kB

@@mavcg sys/class/thermal/thermal_zone0/type
BIG

@@mavcg sys/class/thermal/thermal_zone0/temp
45500

@@mavcg sys/class/thermal/thermal_zone1/temp
no number

@@mavcg sys/../../etc/passwd
x
"""


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_what_a_machine_tells(ends: str) -> None:
    facts = facts_of(TOLD.replace("\n", ends))
    assert (facts.arch, facts.system, facts.model) == ("aarch64", "Linux 4.14.113", "SM-G973F")
    assert (facts.free_bytes, facts.memory_bytes, facts.celsius) == (60 << 10, 2000000 << 10, (("BIG", 45.5),))
    first, second = facts.cpus
    assert (first.core, first.allowed, first.khz, first.governor) == (None, False, None, "")
    assert (second.core, second.allowed, second.khz, second.governor) == ("cortex-a55", True, 442000, "schedutil")


def test_a_machine_that_tells_nothing() -> None:
    assert facts_of("") == MachineFacts("", "", "", ())


@pytest.mark.parametrize(
    "names",
    [
        ("proc/cpuinfo", "proc/cpuinfo/x"),
        ("sys/devices/x", "sys/devices"),
        ("sys/class/thermal/thermal_zone0/temp/x", "sys/class/thermal/thermal_zone0/temp"),
        ("proc/" + "x" * 300,),
        ("sys/devices/system/cpu/cpu7/../../../../../x",),
    ],
)
def test_names_of_files_that_a_board_makes_up_are_not_written(names: tuple[str, ...]) -> None:
    facts_of("".join(f"\n@@mavcg {name}\n1\n" for name in names))


def test_numbers_that_a_board_makes_up() -> None:
    told = "\n@@mavcg :free\nx\n1 2 3 \u00b2\n\n@@mavcg proc/meminfo\nMemAvailable: " + "9" * 5000 + " kB\n"
    facts = facts_of(told)
    assert (facts.free_bytes, facts.memory_bytes) == (None, None)
