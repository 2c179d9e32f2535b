"""A made-up core on which a class of instructions takes one of two units."""

from dataclasses import replace

from mavcg.hardware.timing import ClassTiming, ForbiddenDistance, NoDualIssue, UnitUse
from tests.passes.asm.loops import LIKE_A55

CLASSES = ("fmla_q", "fmadd_s", "ldr_d", "ldr_q", "ins", "alu", "div_x", "branch", "dup_gpr")
# dup_gpr: one micro-operation that takes an fp or an alu unit.
EITHER = replace(
    LIKE_A55,
    classes={**LIKE_A55.classes, "dup_gpr": ClassTiming("dup_gpr", 3, 1.0, (UnitUse(("fp", "alu"), 2),))},
    width=3,
    no_dual_issue=(NoDualIssue(frozenset({"ins"}), frozenset({"alu", "ins"}), "test"),),
    forbidden_distances=(ForbiddenDistance(frozenset({"ldr_d"}), frozenset({"ins", "ldr_d"}), 2, "test"),),
)
