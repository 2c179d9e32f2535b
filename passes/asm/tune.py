"""Tunes the functions of an assembly file for one core by load splitting, software pipelining and list scheduling.

A change is made only if the core's model predicts fewer cycles; see tune_loop and tune_segment.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mavcg.hardware.core import LoadPolicy
from mavcg.hardware.timing import Timing
from mavcg.passes.asm.analysis.blocks import Block, Function, functions_of, is_code_directive
from mavcg.passes.asm.analysis.liveness import Liveness, PrivateConventions, live_before, liveness, private_conventions
from mavcg.passes.asm.analysis.segments import is_fence_free, segments_of
from mavcg.passes.asm.isa.source import Statement, parse_source
from mavcg.passes.asm.isa.syntax import Instr
from mavcg.passes.asm.loop_schedule import SchedulingEffort
from mavcg.passes.asm.loop_tuning import NewLoop, tune_loop
from mavcg.passes.asm.path_check import PlacedSegment, without_slower_paths
from mavcg.passes.asm.straight_tuning import tune_segment
from mavcg.passes.asm.tuning_reports import FunctionReport, LoopReport

# Maximum of lines in a function with tbz or tbnz, which reach 32 KiB: 4 bytes per instruction, some for alignment.
LONGEST_TESTED = (1 << 15) // 4 - 256


@dataclass(frozen=True)
class Tuned:
    """A tuned assembly file: its new text and a report per function.

    pieces: the old text, statement by statement. changes: function -> index of a statement -> its new text.
    """

    text: str
    functions: tuple[FunctionReport, ...]
    pieces: tuple[str, ...] = ()
    changes: Mapping[str, Mapping[int, str]] = field(default_factory=dict)

    def without(self, undone: Mapping[str, str]) -> "Tuned":
        """Return the file with the changes to some functions undone. undone: function -> reason."""
        changes = {name: texts for name, texts in self.changes.items() if name not in undone}
        pieces = list(self.pieces)
        for at, text in (item for texts in changes.values() for item in texts.items()):
            pieces[at] = text
        functions = tuple(
            FunctionReport(f.name, unchanged_because=undone[f.name]) if f.name in undone else f for f in self.functions
        )
        return Tuned("".join(pieces), functions, self.pieces, changes)


def tune(
    text: str,
    timing: Timing,
    policy: LoadPolicy,
    effort: SchedulingEffort | None = None,
    file: str = "<assembly>",
    skip: Callable[[str], str] = lambda name: "",
    progress: Callable[[str], None] = lambda label: None,
    open_inline: bool = False,
) -> Tuned:
    """Tune a file's functions for a core, by the core's model.

    Args:
        policy: the transforms that the core's profile enables.
        effort: time for schedule search, and the store of known schedules.
        skip: returns the reason why the function with this name may not be changed, or "".
        progress: called with the label of each loop before it is scheduled.
        open_inline: True if no inline assembly in the text clobbers memory, so that accesses may move across it.
    Raises: MavcgError with line and column for text that is not assembly.
    """
    statements = parse_source(text, file)
    functions = functions_of(statements, file)
    reports: list[FunctionReport] = []
    changed: dict[str, Mapping[int, str]] = {}
    variants = {s.code.split(None, 1)[1].strip().strip('"') for s in statements if s.name == ".variant_pcs"}
    prefix = _free_prefix(text)
    private = private_conventions(functions)
    for number, function in enumerate(functions):
        why = skip(function.name) or function.frozen or _narrow_tables(statements, function)
        if why or not (policy.split or policy.unpair or policy.schedule):
            reports.append(
                FunctionReport(function.name, unchanged_because=why or "the core's profile asks for nothing")
            )
            continue
        live = liveness(function, function.name in variants, private)
        labels = f"{prefix}{number}"
        job = _FunctionTuning(
            statements,
            function,
            live,
            private,
            timing,
            policy,
            effort or SchedulingEffort(),
            labels,
            progress,
            open_inline,
        )
        report, changes = job.run()
        if _outgrows_tests(statements, function, changes):
            report, changes = (
                FunctionReport(function.name, unchanged_because="it would outgrow the reach of its tbz or tbnz"),
                {},
            )
        reports.append(report)
        changed[function.name] = changes
    return Tuned("", tuple(reports), tuple(s.text for s in statements), changed).without({})


@dataclass(frozen=True)
class _FunctionTuning:
    """The tuning of one function: its inputs, and `run`."""

    statements: Sequence[Statement]
    function: Function
    live: Liveness
    private: PrivateConventions
    timing: Timing
    policy: LoadPolicy
    effort: SchedulingEffort
    prefix: str
    progress: Callable[[str], None]
    open_inline: bool

    def run(self) -> tuple[FunctionReport, dict[int, str]]:
        """Tune the function's loops and straight-line code; return a report and the new texts of statements."""
        changes: dict[int, str] = {}
        loops: list[LoopReport] = []
        placed: list[PlacedSegment] = []
        for index, block in enumerate(self.function.blocks):
            if block.loops_to_itself(index) and block.lines[-1].effects is not None:
                self.progress(self._label(block))
                report, new = self._loop(index, block)
                loops.append(report)
                if new is not None:
                    changes.update(self._replace_lines(block, 0, len(block.lines), _loop_text(new)))
                continue
            for segment in segments_of(block, self.statements, self.open_inline):
                code = self._code(block)[segment.first : segment.stop]
                live_out = live_before(block, self.live.at_end[index], segment.stop, self.private)
                live_in = live_before(block, self.live.at_end[index], segment.first, self.private)
                policy = self.policy if block.in_loop else replace(self.policy, split=False, unpair=False)
                better = tune_segment(code, live_in, live_out, self.timing, policy, block.in_loop)
                if better is not None:
                    placed.append(PlacedSegment(index, segment.first, segment.stop, better))
        kept = without_slower_paths(self.function, self.statements, placed, self.timing)
        for at in kept:
            lines = [f"\t{instr}\n" for instr in at.new.instrs]
            changes.update(self._replace_lines(self.function.blocks[at.block], at.first, at.stop, "".join(lines)))
        splits = sum(at.new.splits for at in kept)
        return FunctionReport(self.function.name, tuple(loops), len(kept), splits), changes

    def _loop(self, index: int, block: Block) -> tuple[LoopReport, NewLoop | None]:
        label = self._label(block)
        line = self.statements[block.lines[0].statement].line
        if not block.whole or not is_fence_free(block, self.statements, self.open_inline):
            unknown = [self.statements[ln.statement] for ln in block.lines if ln.effects is None]
            fences = [s for s in self.statements[block.lines[0].statement : block.stop] if is_code_directive(s)]
            if unknown:
                why = f"line {unknown[0].line}: `{unknown[0].code}` is not known"
            elif fences:
                why = f"line {fences[0].line}: {fences[0].name} stands in its body"
            else:
                why = "a fence in its body"
            return LoopReport(label, line, unchanged_because=why), None
        return tune_loop(
            self._code(block),
            self.live.at_top[index],
            self.live.at_end[index],
            self.timing,
            self.policy,
            self.effort,
            (label, line, f"{self.prefix}_{index}"),
        )

    def _label(self, block: Block) -> str:
        target = block.lines[-1].effects.target if block.lines[-1].effects else ""
        return target if target in block.labels else (block.labels[-1] if block.labels else target)

    def _code(self, block: Block) -> tuple[Instr, ...]:
        instrs = [self.statements[line.statement].instr for line in block.lines]
        return tuple(instr for instr in instrs if instr is not None)

    def _replace_lines(self, block: Block, first: int, stop: int, new: str) -> dict[int, str]:
        """Return new texts for the statements of lines [first, stop): `new` for the first, "" for the others."""
        at = [block.lines[i].statement for i in range(first, stop)]
        changes = dict.fromkeys(at, "")
        changes[at[0]] = new
        return changes


def _loop_text(new: NewLoop) -> str:
    lines = [f"\t// {new.remark}\n"]
    for label, instrs in new.parts:
        if label:
            lines.append("\t.p2align\t4, , 8\n" if label.endswith("_kernel") else "")
            lines.append(f"{label}:\n")
        lines += [f"\t{instr}\n" for instr in instrs]
    return "".join(lines)


def _free_prefix(text: str) -> str:
    """Return a prefix for new labels that does not occur in the file."""
    prefix = ".Lmavcg"
    while prefix in text:
        prefix += "x"
    return prefix


def _outgrows_tests(statements: Sequence[Statement], function: Function, changes: dict[int, str]) -> bool:
    """True if a test-and-branch may no longer reach its target, whose range is 32 KiB (Arm ARM, C6.2, TBZ)."""
    if not any(line.effects and line.effects.op_class == "branch_test" for b in function.blocks for line in b.lines):
        return False
    texts = (changes.get(at, statements[at].text) for at in range(function.start, function.stop))
    return sum(text.count("\n") for text in texts) > LONGEST_TESTED


def _narrow_tables(statements: Sequence[Statement], function: Function) -> str:
    """Return the reason why a function may not grow, or "".

    LLVM writes the entries of small jump tables, distances between labels, in 1 or 2 bytes, which could overflow.
    """
    labels = {label for block in function.blocks for label in block.labels}
    for s in statements:
        if s.kind == "directive" and s.name in (".byte", ".hword", ".short", ".2byte") and "-" in s.code:
            if any(label in s.code for label in labels):
                return f"line {s.line}: {s.code.split(None, 1)[0]} holds a distance between its labels"
    return ""
