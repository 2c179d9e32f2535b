"""Decides which options of a compile command are passed to the clang that makes IR: those about the source's meaning.

A compile_commands.json may come from an untrusted source. This is an allow-list, because each compiler release adds
options that name a file to write or code to load (clang's -foptimization-record-file=, -fcrash-diagnostics-dir=,
-fproc-stat-report=, gcc's -fdump-*=). Source: clang's and gcc's manuals, "Options".
"""

import re
from collections.abc import Sequence

from mavcg.program.sources.arguments import CommandLineWord

# Options for macros and folders of included files; their value is joined or the next word.
_WITH_VALUE = frozenset(
    "-D -U -I -F -isystem -iquote -idirafter -include -imacros -iprefix -iwithprefix -iwithprefixbefore -iframework "
    "-cxx-isystem -stdlib++-isystem --include --include-directory --define-macro --undefine-macro".split()
)
_WHOLE = frozenset("-ansi -undef -pthread -pthreads -trigraphs".split())
_JOINED = re.compile(r"--?std=|--(?:include|include-directory|define-macro|undefine-macro)=")
# -f and -m options without a value, or with a value that is not a path to write to.
_FEATURE = re.compile(r"-f[a-z0-9+-]+$")
_FEATURE_VALUES = frozenset(
    "-fabi-version -fbracket-depth -fcf-protection -fclang-abi-compat -fcomplex-arithmetic -fconstexpr-depth "
    "-fconstexpr-loop-limit -fconstexpr-steps -fconstexpr-ops-limit -fdenormal-fp-math -fexcess-precision "
    "-fexec-charset -ffp-contract -ffp-eval-method -ffp-exception-behavior -ffp-model -finput-charset "
    "-flax-vector-conversions -fms-compatibility-version -fmacro-prefix-map -ffile-prefix-map -fopenmp "
    "-fopenmp-version -fpack-struct -fpatchable-function-entry -fstack-clash-protection -ftemplate-depth -ftls-model "
    "-ftrivial-auto-var-init -ftrapv-handler -fveclib -fvisibility -fwide-exec-charset -fzero-call-used-regs "
    "-fexperimental-library -fstrict-flex-arrays -fnew-alignment -faligned-new".split()
)
# -f options in lower case whose value is the next word.
_SEPARATE_FEATURES = frozenset({"-filelist", "-fdebug-compilation-dir", "-fcoverage-compilation-dir"})
_MACHINE = re.compile(r"-m(?!llvm|mlir|eabi|thread-model|odule)[A-Za-z0-9.+_-]+(=.*)?$")

# Patterns of options that are left out, with the reason; the first match counts.
_WHY = (
    (re.compile(r"-fplugin|-fpass-plugin|-load\b|-specs|--specs|-mllvm|-mmlir|-add-plugin|-plugin"), "it runs code"),
    (re.compile(r"-f(no-)?(implicit-)?module|-fprebuilt-module|-module|-fbuild-session"), "modules are not read"),
    (re.compile(r"--config|-fopenmp-targets|-f?offload|--offload|--cuda|--hip|-Xarch|-Xopenmp"), "it brings options"),
    (
        re.compile(
            r"-f(no-)?(save-)?optimization-record|-foptimization-record|-fcrash-diagnostics|-gen-reproducer|-fproc-stat"
            r"|-ftime-trace|-fstack-usage|-fcallgraph-info|-fdump|-fopt-info|-fcs-profile|-fmemory-profile|-fcoverage"
            r"|-dependency|-header-include-file|-diagnostic-log|-stack-usage-file|-emit|--emit|-index|-fdeps|-fanalyzer"
            r"|-stats-file|-dwarf|-save-stats|--save-stats|-print|-MJ"
        ),
        "it writes files",
    ),
    (re.compile(r"-include-pch"), "a precompiled header of another compiler; the header itself is read"),
)
_MEANINGLESS = "it does not say what the source means"


def why_left_out(word: CommandLineWord) -> str | None:
    """Return the reason why an option is not passed to clang, or None if it is passed."""
    name = word.name
    if name in _WITH_VALUE:
        return None if word.value else "its value is missing"
    if name in _WHOLE or _JOINED.match(name):
        return None
    harmful = next((why for pattern, why in _WHY if pattern.match(name)), None)
    if harmful:
        return harmful
    stem, equals, _ = name.partition("=")
    if stem.startswith("-f"):
        known = stem in _FEATURE_VALUES if equals else bool(_FEATURE.match(stem)) and stem not in _SEPARATE_FEATURES
        return None if known else _MEANINGLESS
    return None if _MACHINE.match(name) else _MEANINGLESS


def unwrap_options(flags: Sequence[str]) -> tuple[list[str], list[str]]:
    """Unwrap options for one stage of the compiler, so that they are checked like all others; return (flags, notes).

    -Wp,-DX=1,-MD,file         -> -DX=1 -MD file
    -Xpreprocessor -fopenmp    -> -fopenmp
    -Xclang -include -Xclang h -> -include h; every other -Xclang is left out with a note
    """
    plain: list[str] = []
    notes: list[str] = []
    remaining = iter(flags)
    has_include = False
    for flag in remaining:
        if flag.startswith("-Wp,"):
            plain += flag.split(",")[1:]
        elif flag == "-Xpreprocessor":
            plain += [value for value in [next(remaining, "")] if value]
        elif flag == "-Xclang":
            value = next(remaining, "")
            if value == "-include" or (has_include and not value.startswith("-")):
                plain.append(value)
                has_include = not has_include
            elif value.startswith("-"):
                why = next((why for pattern, why in _WHY if pattern.match(value)), _MEANINGLESS)
                notes.append(f"-Xclang {value} left out: {why}")
        else:
            plain.append(flag)
    return plain, notes
