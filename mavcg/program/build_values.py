"""The build of a program as values: everything that it depends on, and its result."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mavcg.assembly.tuning_options import FAST, Tuning
from mavcg.errors import MavcgError
from mavcg.files.store import NOTHING_KEPT, EntryStore
from mavcg.hardware.core import Core
from mavcg.objects.inspection import growth_percent
from mavcg.objects.link_options import LinkOptions
from mavcg.program.hot_symbols import HotSymbol
from mavcg.program.lto import Lto
from mavcg.program.objects import ModuleObjects
from mavcg.program.sources.asm_unit import AsmUnit
from mavcg.program.sources.compile_commands import CompileUnit
from mavcg.program.sources.to_assembly import PlainAssembly
from mavcg.program.sources.to_ir import Compiler
from mavcg.program.version_choice import Gains, VersionLimits
from mavcg.toolchain.codegen import default_workers
from mavcg.toolchain.target import Target

Progress = Callable[[str], None]


class NothingToVersion(MavcgError):
    """Raised if the input defines none of the hot functions."""


@dataclass(frozen=True)
class BuildRequest:
    """Everything that a build depends on.

    Args:
        output: .so, or .o for an object to be linked elsewhere.
        cores: cores that get their own version, in addition to the generic one.
        hot: functions to be versioned, hottest first.
        units, ir_files, asm_units: the inputs.
        limits, gains: limits on versions, and measured gains (version_choice).
        per_core_rounding: True if fast-math may round differently per core.
        tuning: options of the machine passes.
        code_flags: code generation flags, such as -ffunction-sections.
        keep_debug: True to keep debug information of the units.
        own: assembly by the own compiler of the only unit, which provides all functions but the hot ones.
        plain: object of the only unit by its own compiler, beside which growth is counted; None to compile it here.
        notes: messages about the selection of the inputs.
        link: options for the link of a library.
        runtime: the selector: "static" or, without MAVCG_CPU_MAP and MAVCG_TRACE, "small", both linked into the
            output; "shared": libmavcg_rt.so.
        workers: number of compilers that run at a time.
        lto: if the output is to be LLVM bitcode, whose code the program's link generates; None for machine code.
        code: where the code of versions is kept, and found again.
    """

    output: Path
    target: Target
    cores: tuple[Core, ...]
    hot: tuple[HotSymbol, ...]
    units: tuple[CompileUnit, ...] = ()
    ir_files: tuple[Path, ...] = ()
    asm_units: tuple[AsmUnit, ...] = ()
    compiler: Compiler = field(default_factory=Compiler)
    limits: VersionLimits = field(default_factory=VersionLimits)
    gains: Gains = field(default_factory=dict)
    per_core_rounding: bool = False
    tuning: Tuning = FAST
    code_flags: tuple[str, ...] = ("-fPIC",)
    keep_debug: bool = False
    own: PlainAssembly | None = None
    plain: Path | None = None
    notes: tuple[str, ...] = ()
    link: LinkOptions = LinkOptions()
    runtime: str = "static"
    workers: int = field(default_factory=default_workers)
    lto: Lto | None = None
    code: EntryStore = NOTHING_KEPT


@dataclass(frozen=True)
class BuildResult:
    """The result of a build, with what reports need; sizes are in bytes, counted in the linked files.

    not_found: hot functions that the input does not define. notes: messages for the user. runtime_bytes: size of the
    selector. total_bytes: of the output. single_library_bytes: of the library without versions; None for an object.
    needed_libraries, needed_symbols: imports of the output. seconds: duration of the build. cpu_seconds: processor time
    of the build, compilers included. inputs: absolute paths of the files that its IR was compiled from.
    """

    output: Path
    target: Target
    cores: tuple[Core, ...]
    hot: tuple[HotSymbol, ...]
    modules: tuple[ModuleObjects, ...]
    not_found: tuple[HotSymbol, ...]
    notes: tuple[str, ...]
    runtime_bytes: int
    total_bytes: int
    single_library_bytes: int | None
    needed_libraries: tuple[str, ...]
    needed_symbols: tuple[str, ...]
    seconds: float
    cpu_seconds: float
    inputs: tuple[str, ...] = ()

    @property
    def module_bytes(self) -> tuple[int, int]:
        """Bytes of the input's code (without versions, with versions and dispatchers), without the selector."""
        single = sum(module.single_bytes for module in self.modules)
        return single, sum(module.multi_bytes for module in self.modules)

    @property
    def growth_percent(self) -> float:
        """Bytes that versions, dispatchers and runtime add, in percent of the single-version build."""
        summaries = [module.summary for module in self.modules]
        return growth_percent(summaries, self.runtime_bytes, self.total_bytes, self.single_library_bytes)
