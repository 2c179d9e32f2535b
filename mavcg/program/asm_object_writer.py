"""Writes an assembly file with versions and dispatchers of its hot functions, and assembles it.

Versions stand after the functions that they are copies of (passes/asm/transforms/function_copies.py); their symbols,
and the generic one's, take the label as a suffix, and the function's own name becomes the dispatcher's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mavcg.hardware.core import GENERIC
from mavcg.passes.asm.analysis.blocks import Function
from mavcg.passes.asm.analysis.labels import debug_statements
from mavcg.passes.asm.isa.source import Statement
from mavcg.passes.asm.transforms.dispatcher_text import dispatcher_text
from mavcg.passes.asm.transforms.function_copies import (
    free_suffix,
    function_extent,
    generic_statement,
    mentions,
    rename_function,
    version_text,
)
from mavcg.passes.ir.dispatch import Dispatch
from mavcg.program.asm_module import AsmModule
from mavcg.program.dispatched_module import runtime_names
from mavcg.program.version_choice import FunctionChoice
from mavcg.program.version_needs import VersionNeeds, set_for
from mavcg.program.version_values import CompiledVersion
from mavcg.runtime.coreset import CoreSet
from mavcg.toolchain.codegen import assemble
from mavcg.toolchain.target import Target


@dataclass(frozen=True)
class AsmObjectWriter:
    """Writes objects of one assembly file, each with some of its versions.

    Args:
        bodies: (function, label) -> version.
        stretches: symbol of a version -> its statements.
    """

    module: AsmModule
    core_set: CoreSet
    target: Target
    path: Path
    bodies: Mapping[tuple[str, str], CompiledVersion]
    stretches: Mapping[str, Sequence[Statement]]

    def write(self, choices: Sequence[FunctionChoice], needs: VersionNeeds) -> Path:
        """Assemble the object with the chosen versions, and a dispatcher for each function that has several."""
        used = [choice for choice in choices if not choice.is_single]
        labels = {choice.function: list(choice.bodies) for choice in used}
        dispatches = [
            Dispatch(
                c.function,
                tuple(f"{c.function}.{version.body}" for version in c.versions),
                runtime_names(set_for(c, self.core_set, needs), self.target),
            )
            for c in used
        ]
        return self.assemble_versions(labels, dispatches)

    def assemble_versions(self, labels: Mapping[str, Sequence[str]], dispatches: Sequence[Dispatch]) -> Path:
        """Assemble an object with versions and dispatchers.

        labels: function -> labels of its versions, "generic" included.
        """
        statements = self.module.statements
        pieces = [s.text for s in statements]
        in_debug = debug_statements(statements)
        suffix, landing = free_suffix(self.module.text), ".note.gnu.property" in self.module.text
        for name in labels:
            inside = function_extent(statements, named_function(self.module.functions, name))
            generic = self.bodies[name, GENERIC]
            for at, s in enumerate(statements):
                if at not in inside and mentions(s, name):
                    pieces[at] = generic_statement(replace(s, text=pieces[at]), name, generic.symbol, at in in_debug)
            text = rename_function(self.stretches[generic.symbol], name, generic.symbol)
            texts = [version_text(text, generic.symbol, landing)]
            for number, body in enumerate(self.bodies[name, label] for label in labels[name] if label != GENERIC):
                copy = rename_function(self.stretches[body.symbol], name, body.symbol, f"{suffix}{number}")
                texts.append("\t.p2align 4\n" + version_text(copy, body.symbol, landing))
            pieces[inside.start] = "".join(texts)
            pieces[inside.start + 1 : inside.stop] = [""] * (len(inside) - 1)
        dispatchers = [
            dispatcher_text(d.name, d.targets, d.runtime, self._is_weak(d.name), self._visibility(d.name))
            for d in dispatches
        ]
        text = "".join([*pieces, "\n", *dispatchers])
        assemble(text, self.path, self.target, f"versions of {self.module.source}", self.module.unit.folders)
        return self.path

    def _is_weak(self, name: str) -> bool:
        return any(s.name == ".weak" and mentions(s, name) for s in self.module.statements)

    def _visibility(self, name: str) -> str:
        directives = (".hidden", ".protected", ".internal")
        return next((s.name[1:] for s in self.module.statements if s.name in directives and mentions(s, name)), "")


def named_function(functions: Sequence[Function], name: str) -> Function:
    """Return the function of this name."""
    return next(function for function in functions if function.name == name)
