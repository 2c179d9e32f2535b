"""Makes the objects of a module for chosen versions: the module with its dispatchers, and the versions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.errors import CannotRun, ToolError
from mavcg.objects.elf import is_aligned
from mavcg.passes.asm.transforms.remove_definitions import CannotSeparate
from mavcg.passes.ir.dispatch import (
    Dispatch,
    RuntimeNames,
    add_dispatchers,
    add_single_bodies,
    add_version_aliases,
)
from mavcg.passes.ir.hot_module import MERGEABLE, HotModule, version_symbol
from mavcg.passes.ir.module_text import ModuleText, with_entities
from mavcg.passes.ir.shared import keep_for_versions
from mavcg.program.choose_versions import (
    DISPATCHER_POINTERS,
    RELOCATION_BYTES,
)
from mavcg.program.object_separation import separate
from mavcg.program.sources.to_assembly import PlainAssembly
from mavcg.program.version_choice import (
    FunctionChoice,
)
from mavcg.program.version_jobs import VersionJobs
from mavcg.program.version_needs import VersionNeeds, needs_with_callees, set_for
from mavcg.program.version_values import CompiledVersion, VersionedModule
from mavcg.runtime.coreset import TABLE_CPUS, CoreSet, symbols
from mavcg.toolchain.codegen import CodegenJob, assemble, compile_module
from mavcg.toolchain.target import Target


def runtime_names(core_set: CoreSet, target: Target) -> RuntimeNames:
    """Return the runtime's symbols for the dispatcher pass."""
    names = symbols(core_set)
    return RuntimeNames(names.rseq_offset, names.core_of_cpu, names.select, TABLE_CPUS, target.system != "macos")


@dataclass(frozen=True)
class DispatchedModule:
    """Makes a module's objects for chosen versions.

    Args:
        paths: symbol of a version -> its object file.
        needs: of each version's own instructions.
        level: -O level for the module's own code.
        own: the assembly of the program's own compiler, if cold functions come from it.
    """

    module: VersionedModule
    core_set: CoreSet
    target: Target
    stem: Path
    paths: Mapping[str, Path]
    needs: VersionNeeds
    level: str
    flags: tuple[str, ...]
    own: PlainAssembly | None = None

    def objects(self, choices: Sequence[FunctionChoice]) -> tuple[list[Path], int]:
        """Return (objects, bytes that linking adds to them): the module with its dispatchers, then the versions.

        There are no objects if no function has a dispatcher.
        """
        needs: set[str] = set()
        version_objects: list[Path] = []
        for choice in choices:
            by_label = {body.label: body for body in self.module.bodies_of(choice.function)}
            for label in () if choice.is_single else choice.bodies:
                body = by_label[label]
                needs |= body.needs
                path = self.paths[body.symbol]
                if aliases := choice.aliases(label):
                    further = _alias_text(self.module.hot, body, aliases, self.target)
                    assemble(body.asm + further, path, self.target, body.function)
                version_objects.append(path)
        if not version_objects:
            return [], 0
        base = self.stem.with_name(f"{self.stem.name}.base.o")
        module, cold = self._rest(choices, needs)
        action = f"compiling {self.module.source}"
        compile_module(CodegenJob(str(module), self.target, action, self.level, True, "obj", self.flags), base)
        tables = [choice.tried_versions(self.core_set.names) for choice in choices if not choice.is_single]
        pointers = sum(1 + len(tried) + DISPATCHER_POINTERS for tried in tables)
        return [base, *version_objects, *cold], RELOCATION_BYTES * pointers

    def ir_texts(self, choices: Sequence[FunctionChoice]) -> list[str]:
        """Return the IR of the module with its dispatchers, and of each version; for a module made for bitcode."""
        needs: set[str] = set()
        texts: list[str] = []
        for choice in choices:
            by_label = {body.label: body for body in self.module.bodies_of(choice.function)}
            for label in () if choice.is_single else choice.bodies:
                needs |= by_label[label].needs
                aliases = choice.aliases(label)
                text = self._limited_ir(choice.function, label)
                texts.append(add_version_aliases(self.module.hot, text, choice.function, label, aliases))
        module, _ = self._rest(choices, needs)
        return [str(module), *texts]

    def _limited_ir(self, function: str, label: str) -> str:
        """Return a version's IR, of which a link generates code that needs no more than its recorded needs."""
        text = self.module.ir[function, label]
        core = next((core for core in self.module.cores if core.name == label), None)
        if core is None:
            return text
        version_jobs = VersionJobs(self.module.hot, self.target, self.module.opt_level, False)
        return version_jobs.limited_to(self.needs[function, label], function, core, text)

    def _rest(self, choices: Sequence[FunctionChoice], needs: set[str]) -> tuple[ModuleText, list[Path]]:
        """Return (module, objects) of everything but the versions.

        Either the program's own module with its dispatchers, and no objects; or, if cold functions come from the
        program's own compiler, a module of the dispatchers, and that compiler's object. Raises: CannotSeparate.
        """
        all_needs = needs_with_callees(self.module, self.needs, choices, self.target)
        dispatches = [self._dispatch(choice, all_needs) for choice in choices if not choice.is_single]
        if self.own is None:
            return _base_module(self.module, choices, needs, dispatches), []
        names = [dispatch.name for dispatch in dispatches]
        parts = separate(self.module.hot, names, _single_labels(self.module, choices), needs, self.own.text)
        has_callers = len(parts.base.definitions()) > len(dispatches)  # those that the compiler inlined everywhere
        made = add_dispatchers(self.module.hot, parts.base, dispatches, has_callers)
        cold = self.stem.with_name(f"{self.stem.name}.cold.o")
        try:
            self.own.assemble(parts.assembly, cold)
        except CannotRun:
            raise
        except ToolError as error:
            raise CannotSeparate(str(error)) from error
        low = next((name for name, align in parts.aligned.items() if not is_aligned(cold, name, align)), None)
        if low:
            raise CannotSeparate(f"the compiler aligns {parts.named[low]} to less than {parts.aligned[low]} bytes")
        return with_entities(made, made.entities), [cold]

    def _dispatch(self, choice: FunctionChoice, needs: VersionNeeds) -> Dispatch:
        tried = choice.tried_versions(self.core_set.names)
        symbols = tuple(version_symbol(self.module.hot, choice.function, k.body) for k in tried)
        core_set = set_for(choice, self.core_set, needs)
        return Dispatch(choice.function, symbols, runtime_names(core_set, self.target))


def _alias_text(hot: HotModule, body: CompiledVersion, labels: Sequence[str], target: Target) -> str:
    """Return assembly that defines aliases of a version for the versions that share it or were dropped for it."""
    merged = hot.module.linkage(body.function) in MERGEABLE
    if target.system == "macos":
        prefix, hidden, weak = "_", ".private_extern", "\t.weak_definition {name}\n" if merged else ""
        binding = "\t.globl {name}\n" + weak
    else:
        prefix, hidden = "", ".hidden"
        binding = "\t.weak {name}\n" if merged else "\t.globl {name}\n"
    lines = []
    for label in labels:
        name = f'"{prefix}{version_symbol(hot, body.function, label)}"'
        lines.append(f'{binding.format(name=name)}\t{hidden} {name}\n\t.set {name}, "{prefix}{body.symbol}"\n')
    return "".join(lines)


def _base_module(
    module: VersionedModule, choices: Sequence[FunctionChoice], needs: set[str], dispatches: Sequence[Dispatch]
) -> ModuleText:
    """Return the program's own module, with dispatchers of versioned functions, and the symbols that versions need."""
    base = keep_for_versions(module.hot, needs)
    base = add_dispatchers(module.hot, base, dispatches)
    base = add_single_bodies(module.hot, base, _single_labels(module, choices))
    return with_entities(base, base.entities)


def _single_labels(module: VersionedModule, choices: Sequence[FunctionChoice]) -> dict[str, list[str]]:
    """Return function with one version for all cores -> labels of its versions that other versions call."""
    asm = [body.asm for choice in choices if not choice.is_single for body in module.bodies_of(choice.function)]
    return {
        choice.function: [
            k.label
            for k in choice.versions
            if any(version_symbol(module.hot, choice.function, k.label) in text for text in asm)
        ]
        for choice in choices
        if choice.is_single
    }
