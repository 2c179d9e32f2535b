"""A hand-written kernel as text, as an object, and as a library with versions."""

from pathlib import Path

import pytest

from mavcg.toolchain.zig import run_zig

# One iteration: 5 instructions, of which two q loads block a Cortex-A55 for 2 cycles each; 8 FLOP.
DOT = """\
\t.text
\t.globl dot
\t.type dot, %function
dot:
\tmovi v0.4s, #0
.L1:
\tldr q1, [x0], #16
\tldr q2, [x1], #16
\tfmla v0.4s, v1.4s, v2.4s
\tsubs x2, x2, #1
\tb.ne .L1
\tfaddp v0.4s, v0.4s, v0.4s
\tfaddp s0, v0.2s
\tret
\t.size dot, .-dot
\t.globl plain
\t.type plain, %function
plain:
\tadd x0, x0, x1
\tmul x0, x0, x0
\tret
\t.size plain, .-plain
\t.globl rows
\t.type rows, %function
rows:
.L2:
\tmov x3, x1
.L3:
\tstr x2, [x0], #8
\tsubs x3, x3, #1
\tb.ne .L3
\tsubs x2, x2, #1
\tb.ne .L2
\tret
\t.size rows, .-rows
"""


@pytest.fixture
def dot_file(here: Path) -> Path:
    """dot.s in the current folder."""
    (here / "dot.s").write_text(DOT)
    return here / "dot.s"


@pytest.fixture
def dot_library(here: Path) -> Path:
    """A library with dot.generic and dot.cortex-a55, of which the second has its loads apart."""
    body = DOT[DOT.index("\tmovi") : DOT.index("\t.size dot")]
    split = body.replace("\tldr q1, [x0], #16\n", "\tldr d1, [x0], #16\n\tldr x9, [x0, #-8]\n\tins v1.d[1], x9\n")
    text = "\t.text\n"
    for name, code in (("dot.generic", body), ("dot.cortex-a55", split.replace(".L1", ".L4"))):
        text += f'\t.globl "{name}"\n\t.type "{name}", %function\n"{name}":\n{code}\t.size "{name}", .-"{name}"\n'
    (here / "versions.s").write_text(text)
    out = here / "libdot.so"
    words = ["-target", "aarch64-linux-gnu.2.17", "-shared", "-nostdlib", "versions.s", "-o", str(out)]
    run_zig("cc", words, "building a test's library", cwd=here)
    return out
