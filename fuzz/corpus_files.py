"""Inputs of the targets that read text files: the product's own files, and examples of its pages and tests."""

import gzip
import json
import lzma
import re
import struct
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROFILES = ROOT / "profiles"

# The corpus's name -> target and file of profiles/.
OF_PROFILES = {
    "rk3588": ("board_file", "boards/rk3588.toml"),
    "alder-lake": ("board_file", "boards/alder-lake.toml"),
    "cortex-a78": ("core_file", "cores/cortex-a78.toml"),
    "cortex-a520": ("core_file", "cores/cortex-a520.toml"),
    "skylake": ("core_file", "cores/skylake.toml"),
    "setup-a": ("accelerator_file", "accelerators/setup-a.json"),
    "figure-6-1": ("accelerator_file", "accelerators/figure-6-1.json"),
    "small": ("hardware_file", "isa_targets/small.toml"),
    "45nm": ("hardware_file", "technologies/45nm.toml"),
    "orin-nano": ("hardware_file", "gpus/orin-nano.toml"),
}
POWER = '[a]\nsource = "x"\nkhz_mw = [[1800000, 320.5], [2400000, 845]]\n'
FACTS = """\
branches.mispredict = 11
instr.fmla_q.latency = { value = 4, source = "x" }
"""
TEMPLATES = """\
[kinds]
any_conv = ["conv", "depthwise"]
[template."conv+pool"]
nodes = { a = "any_conv", b = "max_pool" }
edges = [["a", "b"]]
kernel = { b = 3 }
stride = { b = 2 }
context = ["b"]
"""
LEVELS = """\
{"frequency": 1, "bandwidth": 20, "pe_len": [16, 16], "pe_mapping": [["IC"], ["OC"]], // words
 "levels": [{"name": "near", "mem_size": [8, 4, 8], "bandwidth": 80}, {"name": "far", "mem_size": 512}]}
"""
SPACE = """\
technology = "45nm"
[accelerator]
mem_size = [[16, 16, 16], [64, 32, 64]]
pe_len = [[8, 8], [16, 16]]
pe_mapping = [[["IC"], ["OC"]], [["OH"], ["OW"]]]
bandwidth = [10, 20]
frequency = [0.5, 1]
precision = ["f16", "i8"]
"""
BOARD_SPACE = """\
[board]
mix = [{ cortex-a55 = 4 }, { cortex-a76 = 2, cortex-a55 = 2 }]
max_khz = { cortex-a55 = [1800000], cortex-a76 = [2200000, 2400000] }
memory_gb_per_s = [10, 20]
budget_w = 4
"""
TARGET_SPACE = """\
[target]
base = "small"
search = "greedy"
frequency_mhz = [100, 200.5]
banks = [2, 4]
"""
FLEET = """\
scheduler = "tls://farm:8786"
[rules]
slow = 1.5
hot_celsius = 70
[[board]]
name = "desk-1"
type = "rk3588"
runner = "ssh:pi@10.0.0.7:22"
[[board]]
name = "phone"
type = "exynos9820"
runner = "adb:R58M12"
"""
APPLICATION = """\
memory = "1.5 MB"
parallel = [["a", "b"]]
order = ["b", "a"]

[[network]]
name = "a"
file = "a.onnx"
throughput = 20
schedule = "a, [b, [c] x 2] x 8"

[[network]]
name = "b"
file = "a.onnx"
precision = "mixed"
partitions = "auto:2"
shapes = { x = [1, 3, 8, 8] }
"""
MEMORY = "id,lower,upper,size\na,0,3,4\nb,3,9,4\nc,0,9,4\nd,6,7,4\n"
MEMORY_OTHER = "size,buffer,start,end\n16,b1,-2,3\n0,b2,3,5\n16,b3,2,7\n"
OWN_PROFILE = {
    "format": "mavcg-profile",
    "version": 1,
    "kind": "samples",
    "event": "cycles",
    "command": "./app",
    "board": "rk3588",
    "samples": [
        {"symbol": "conv", "object": "app", "samples": 60.0, "cpu": 1, "core": "cortex-a55", "records": 6},
        {"symbol": "relu", "object": "app", "samples": 40.0},
    ],
    "notes": ["x"],
    "offsets": [{"symbol": "conv", "object": "app", "samples": {"16": 60}}],
}
MEASUREMENTS = {
    "format": "mavcg-measurements",
    "version": 1,
    "measurements": [
        {
            "function": "conv",
            "core": "cortex-a55",
            "event": "cycles",
            "generic": [10.0, 11.5, 10.5],
            "own": [8.0, 8.5, 8.25],
            "generic_samples": 900,
            "own_samples": 800,
            "generic_share": 0.5,
        }
    ],
}
FACTS_OF_A_BOARD = """\
facts

@@mavcg :arch
aarch64

@@mavcg :system
Linux 6.1.0

@@mavcg :free
Filesystem 1024-blocks Used Available Capacity Mounted on
/dev/root 100 50 50 50% /tmp

@@mavcg proc/cpuinfo
processor	: 0
CPU implementer	: 0x41
CPU part	: 0xd05
CPU variant	: 0x1
CPU revision	: 0

@@mavcg proc/meminfo
MemAvailable:     123456 kB

@@mavcg proc/self/status
Cpus_allowed_list:	0-1

@@mavcg sys/devices/system/cpu/present
0-1

@@mavcg sys/devices/system/cpu/online
0

@@mavcg sys/devices/system/cpu/cpu1/regs/identification/midr_el1
0x00000000414fd0b0

@@mavcg sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq
1800000

@@mavcg sys/class/thermal/thermal_zone0/type
soc-thermal

@@mavcg sys/class/thermal/thermal_zone0/temp
41500
"""
TIMES = {"ns": [1000.0, 1500.0, 99000.0], "lost": [0, 0, 1], "runs": 3}
COOL = {"khz": [2000000, 1800000], "mc": [41500, 42000]}
MACHINE = {"jobs": 3, "cpu": 0, "midr": 0x412FD050, "governor": "", "khz": 2000000, "lost": 0}
BENCH_LINES = (
    {"machine": MACHINE},
    {"job": 0, "sum": "00ff", "warm": TIMES, "cold": TIMES, **COOL},
    {"job": 1, "fault": "it cannot run"},
    {"turns": [{"job": 0, "sum": "1", "times": TIMES}, {"job": 2, "sum": "2", "times": TIMES}], **COOL},
    {"fault": "no memory"},
    {"end": MACHINE},
)
COSTS = {
    "format": "mavcg costs",
    "version": 3,
    "costs": [
        {
            "what": {"conversion": ["HWC", "CHW", 8, 4, 4]},
            "core": "cortex-a55",
            "threads": 1,
            "compiler": "clang 21",
            "block": 0,
            "caches": "warm",
            "ms": 0.5,
            "spread_ms": 0.01,
            "runs": 9,
            "kind": "measured",
            "date": "2026-01-01T00:00:00+00:00",
            "host": "x",
            "kernels": "k",
            "turns": 0,
        }
    ],
}
JSON_TABLES = {
    "costs": COSTS,
    "measurements": MEASUREMENTS,
    "facts": {
        "processor": "x",
        "clusters": [{"core": "cortex-a55", "cpus": [0, 1], "max_khz": 1800000, "l1d_bytes": 32768}],
        "l3_bytes": 1048576,
        "memory_gb_per_s": 10.5,
    },
    "selection": {
        "nodes": {"a": [1, 2.5], "b": [0, "inf"]},
        "edges": [{"from": "a", "to": "b", "costs": [[0, 1], ["inf", 0]]}],
    },
    "graph": {"nodes": {"a": "conv", "b": "pool"}, "edges": [["a", "b"], ["b", "a", "x"]]},
    "path": {"groups": [{"nodes": ["a", "b"], "cost": 3.5}, {"nodes": ["b"], "cost": 1}], "edges": [["a", "b"]]},
    "sizes": {
        "target": "small",
        "sizes": {
            "word": 4,
            "rows": 2,
            "banks": 8,
            "feature_words": 4096,
            "weight_words": 512,
            "port_bytes": 1,
            "rounding": "half_up",
        },
    },
    "spec": {"scatter": ["f32", "max", {"nest": [[3], [[1], [1]]]}, 8, 2, 1, 5, 3, 3]},
    "log": {"object": "/x/a.o", "functions": ["f", "g"]},
}
IR = """\
target triple = "aarch64-unknown-linux-gnu"
$shared = comdat any
@table = internal global [4 x float] zeroinitializer, align 16
@other = external global i32
@again = weak alias void (ptr, i64), ptr @scale

define void @scale(ptr noundef %x, i64 %n) #0 {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %p, align 4
  %m = fmul contract float %v, 2.0
  %s = fadd contract float %m, %v
  %f = call float @llvm.fmuladd.f32(float %s, float %m, float %v)
  %h = call fast float @helper(float %f)
  store float %h, ptr %p, align 4
  %next = add i64 %i, 1
  %done = icmp uge i64 %next, %n
  br i1 %done, label %exit, label %loop, !llvm.loop !0
exit:
  ret void
}

define internal float @helper(float %x) {
  %t = load float, ptr @table, align 4
  %r = fadd float %x, %t
  ret float %r
}

define linkonce_odr <4 x float> @shared(<4 x float> %x, ...) comdat {
  ret <4 x float> %x
}

declare float @llvm.fmuladd.f32(float, float, float)
attributes #0 = { nounwind "target-cpu"="generic" "target-features"="+neon,+v8a" }
!0 = distinct !{!0}
"""


def text_corpora() -> Iterator[tuple[str, str, bytes]]:
    """Target, file name, bytes."""
    for name, (target, file) in OF_PROFILES.items():
        named = re.sub(rb'^name( *)= *".*"', rb'name\1= "fuzzed"', (PROFILES / file).read_bytes(), flags=re.MULTILINE)
        yield target, name, named
    for name, text in (("power", POWER), ("facts", FACTS), ("templates", TEMPLATES)):
        yield "hardware_file", name, text.encode()
    yield "accelerator_file", "levels", LEVELS.encode()
    for name, text in (("accelerators", SPACE), ("boards", BOARD_SPACE), ("targets", TARGET_SPACE)):
        yield "space_file", name, text.encode()
    yield "fleet_file", "two", FLEET.encode()
    yield "application_file", "two", APPLICATION.encode()
    yield "memory_instance", "minimalloc", MEMORY.encode()
    yield "memory_instance", "other_order", MEMORY_OTHER.encode()
    yield "board_answer", "facts", FACTS_OF_A_BOARD.encode()
    yield "board_answer", "lines", "\n".join(map(json.dumps, BENCH_LINES)).encode()
    for name, table in JSON_TABLES.items():
        yield "json_tables", name, json.dumps(table).encode()
    yield "profile_text", "own", json.dumps(OWN_PROFILE, indent=1).encode()
    yield "ir_text", "scale", IR.encode()


def perf_corpora(script: str, report: str) -> Iterator[tuple[str, str, bytes]]:
    """Yield inputs of perf_data as text_corpora does. script, report: what perf prints of samples."""
    for name, order, mark in (("little", "<", b"PERFILE2"), ("big", ">", b"2ELIFREP")):
        sizes = struct.pack(f"{order}Q", 104) + bytes(24) + struct.pack(f"{order}QQ", 104, len(script))
        yield "perf_data", name, (mark + sizes).ljust(104, b"\0") + script.encode()
    yield "perf_data", "gzip", gzip.compress(report.encode(), mtime=0)
    yield "perf_data", "xz", lzma.compress(report.encode())
