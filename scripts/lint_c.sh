#!/usr/bin/env bash
# Checks the C: `lint_c.sh format` with clang-format (.clang-format), `lint_c.sh write` formats it, `lint_c.sh tidy` runs
# clang-tidy (.clang-tidy) without its static analyzer, `lint_c.sh analyze` the static analyzer alone, which takes ten
# times as long. Version 14, Debian's: others format differently. Skips with a message where there is none.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(git ls-files 'runtime/*.[ch]' 'fuzz/c/*.[ch]' 'fuzz/inject/*.[ch]' 'mavcg/accelerators/rtl/csrc/*.[ch]*' 'mavcg/lab/runners/csrc/*.[ch]' 'mavcg/lab/simulate/csrc/*.[ch]' 'mavcg/program/csrc/*.[ch]' 'bench/*.c' \
    'tests/runtime/*.[ch]' 'tests/pipelines/*.c' 'tests/examples/*.c' 'examples/accel_host/*.c' | grep -v -e csrc/x86_needs.h -e csrc/sample/)

tool() { # the command of version 14
    local command
    for command in "$1-14" "$1"; do
        if "$command" --version 2>/dev/null | grep -q 'version 14\.'; then
            echo "$command"
            return
        fi
    done
    echo "lint: no $1 14: C is not checked by it (Debian: apt-get install $1)" >&2
}

case ${1:-} in
format)
    format=$(tool clang-format)
    [ -z "$format" ] || "$format" --dry-run --Werror "${files[@]}"
    ;;
write)
    format=$(tool clang-format)
    [ -z "$format" ] || "$format" -i "${files[@]}"
    ;;
tidy | analyze)
    tidy=$(tool clang-tidy)
    checks='-clang-analyzer-*'
    [ "$1" = tidy ] || checks='-*,clang-analyzer-*,-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling'
    # Flags: compile_flags.txt of each folder. forms.h is made when C is compiled, so here too.
    if [ -n "$tidy" ] && [ -f mavcg/accelerators/isa/c_forms.py ]; then
        mkdir -p build/accel
        .venv/bin/python -m mavcg.accelerators.isa.c_forms build/accel/forms.h
    fi
    for folder in runtime/csrc runtime/accel; do
        [ -z "$tidy" ] || (cd "$folder" && printf "%s\0" ./*.c | xargs -0 -n 4 -P 2 "$tidy" --quiet --checks="$checks" 2>/dev/null)
    done
    ;;
*)
    echo "usage: lint_c.sh format|write|tidy|analyze" >&2
    exit 2
    ;;
esac
