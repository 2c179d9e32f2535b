"""Translates a program's compile command into the clang command that makes its LLVM IR."""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.errors import MavcgError
from mavcg.program.sources.arguments import words
from mavcg.program.sources.ir_options import unwrap_options, why_left_out
from mavcg.toolchain.target import Target, host_target

# First on the command line, so that the program's own options override them.
ALWAYS = ("-w",)
# For these gcc 12 warns and clang reports an error: sources that compile by gcc must compile here too.
GCC_ACCEPTS_C = (
    "-Wno-implicit-function-declaration",
    "-Wno-implicit-int",
    "-Wno-int-conversion",
    "-Wno-incompatible-function-pointer-types",
    "-Wno-return-mismatch",
)
GCC_ACCEPTS_CXX = ("-Wno-c++11-narrowing", "-Wno-reserved-user-defined-literal", "-Wno-register")

# Options about output, dependency files, messages and linking, which do not change the program's meaning.
_DROPPED = frozenset(
    "-w -c --compile -o --output -x --language -M -MM -MD -MMD -MP -MG -MV -MF -MT -MQ -MJ -pipe -v -Q -pedantic "
    "-pedantic-errors -L -l -T -u -z -e -s -shared -static -static-pie -static-libgcc -static-libstdc++ -rdynamic -pie "
    "-no-pie -nostdlib -nodefaultlibs -nostartfiles -Xlinker -Xassembler -Xanalyzer -aux-info -wrapper "
    "-dumpbase -dumpdir -dumpbase-ext -framework -B -fwhole-program -fuse-linker-plugin -ffat-lto-objects "
    "-fno-fat-lto-objects -fno-lto -fPIC -fpic -fPIE -fpie -fno-PIC -fno-pic -fno-PIE -fno-pie "
    "-serialize-diagnostics --serialize-diagnostics".split()
)
_DROPPED_STARTS = (
    "-W",
    "-flto",
    "-g",
    "-fdiagnostics-",
    "-fmessage-length",
    "-fmax-errors",
    "-ferror-limit",
    "-fcolor-diagnostics",
    "-fno-color-diagnostics",
    "-fansi-escape",
    "-save-temps",
    "--save-temps",
    "-ftime-",
    "-fuse-ld",
    "-mtune=",
    "-fvar-tracking",
    "-fno-var-tracking",
    "-frecord-gcc-switches",
    "-grecord",
    "--serialize",
)
# Left out because they need the program's own runtime or profile; the code computes the same without them.
_LEFT_OUT = {
    "-fsanitize": "sanitizers are not applied to versions",
    "-fno-sanitize": "",
    "-fprofile": "profile data of another compiler is not read",
    "-fauto-profile": "profile data of another compiler is not read",
    "-fbranch-probabilities": "profile data of another compiler is not read",
    "--coverage": "versions are not instrumented",
    "-coverage": "versions are not instrumented",
    "-ftest-coverage": "versions are not instrumented",
    "-finstrument-functions": "versions are not instrumented",
    "-pg": "versions are not instrumented",
    "-fplugin": "another compiler's plugin",
}
_OTHER_ABI = {"-m32": "32-bit code", "-mx32": "x32 code", "-m16": "16-bit code", "-mbig-endian": "big-endian code"}
# Options that decide where headers are; they are for the program's compiler, not for the clang that makes IR.
TOOLCHAIN_OPTIONS = (
    "-target",
    "--target",
    "--sysroot",
    "-isysroot",
    "-gcc-toolchain",
    "--gcc-toolchain",
    "-stdlib",
    "-nostdinc",
    "-nostdinc++",
)


@dataclass(frozen=True)
class IrCommand:
    """The clang command that makes IR.

    Args:
        options: for clang, without source and output.
        opt_level: the program's -O level; "0" without one.
        toolchain: the options of TOOLCHAIN_OPTIONS that were left out of `options`.
        notes: options that were left out, with the reason.
    """

    options: tuple[str, ...]
    opt_level: str
    toolchain: tuple[str, ...]
    notes: tuple[str, ...]


def translate(flags: Sequence[str], target: Target, language: str, keep_debug: bool = False) -> IrCommand:
    """Return the clang command that makes IR of a source. flags: of its gcc or clang command, without the compiler.

    Kept: macros, include paths, the language standard, -f and -m options, and ISA extensions from -march, -mavx2 and
    the like, which are the program's base features. Left out: output, warnings, linking, LTO, and CPU names from -mcpu
    and -mtune (each version has its own). Also left out, with a note: every option that is not known to define only the
    source's meaning (ir_options.py). IR is always made at -O2 (or the given size level) and position independent.
    Raises: MavcgError for 32-bit or big-endian code.
    """
    kept_options: list[str] = []
    toolchain: list[str] = []
    notes: list[str] = []
    level, march, mcpu, aliasing = "0", "", "", False
    plain, wrapped_notes = unwrap_options(flags)
    notes += wrapped_notes
    for word in words(plain):
        name = word.name
        if name.partition("=")[0] in TOOLCHAIN_OPTIONS:
            toolchain += word.text
            continue
        if not name or name in _DROPPED or name.startswith(_DROPPED_STARTS):
            continue
        if name in _OTHER_ABI:
            raise MavcgError(f"{name}: {_OTHER_ABI[name]} is not built for; targets are 64-bit and little-endian")
        if reason := next((why for start, why in _LEFT_OUT.items() if name.startswith(start)), None):
            notes.append(f"{name} left out: {reason}")
        elif reason == "":
            continue
        elif name.startswith("-O"):
            level = _level(name)
            kept_options += ["-ffast-math"] if level == "fast" else []
        elif name.startswith("-march="):
            march = name
        elif name.startswith("-mcpu="):
            mcpu = name.removeprefix("-mcpu=")
        elif name == "-arch" or name.startswith("--param"):  # gcc's own heuristics
            continue
        elif why := why_left_out(word):
            notes.append(f"{name} left out: {why}")
        else:
            aliasing = aliasing or name in ("-fstrict-aliasing", "-fno-strict-aliasing")
            kept_options += word.text
    features, feature_notes = _base_features(march, mcpu, target)
    # gcc assumes strict aliasing from -O2 on; IR made at -O2 for a program built without it must not.
    lenient = ["-fno-strict-aliasing"] if level in ("0", "1", "g") and not aliasing else []
    accepted = GCC_ACCEPTS_CXX if language.startswith("c++") else GCC_ACCEPTS_C
    made_at = f"-O{level}" if level in ("2", "3", "s", "z") else ("-O3" if level == "fast" else "-O2")
    debug = ["-g"] if keep_debug else ["-g0"]
    options = [*ALWAYS, *accepted, made_at, *debug, "-fPIC", *lenient, *features, *kept_options]
    return IrCommand(tuple(options), level, tuple(toolchain), (*notes, *feature_notes))


def _level(name: str) -> str:
    level = name[2:] or "1"
    if level.isdigit():
        return str(min(int(level), 3))
    return level if level in ("s", "z", "g", "fast") else "2"


def _base_features(march: str, mcpu: str, target: Target) -> tuple[list[str], list[str]]:
    """Return the ISA options to keep from -march= and -mcpu=, and notes.

    -march names an ISA (on x86 perhaps by a CPU) and is kept; -mcpu names a CPU, and only its added extensions
    (-mcpu=cortex-a72+crypto) are kept.
    """
    name, _, extensions = mcpu.partition("+")
    notes = []
    if mcpu and target.arch == "aarch64":
        notes.append(
            f"-mcpu={mcpu}: the CPU name {name} left out, versions are for the cores you name; if the source needs its "
            "extensions, name them by -march, such as -march=armv8.2-a+dotprod"
        )
        if extensions and not march:
            march = f"-march=armv8-a+{extensions}"
    if march == "-march=native":
        if host_target().arch != target.arch:
            return [], [*notes, f"-march=native left out: this machine is not {target.arch}"]
    return ([march] if march else []), notes
