#!/bin/sh
# Builds the C targets into the folder $1: libFuzzer with the address and undefined-behaviour sanitizers.
# CLANG names another clang, PYTHON another Python (it writes the tables of the model that the engine runs).
set -eu
out=$1
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM HUP INT

echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d && n ? 0 : 0; }' >"$work/try.c"
compiler=
for each in ${CLANG:-clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14}; do
    if "$each" -fsanitize=fuzzer,address "$work/try.c" -o "$work/try" 2>/dev/null; then
        compiler=$each
        break
    fi
done
if [ -z "$compiler" ]; then
    echo "fuzz: no clang with libFuzzer: no C targets (Debian: apt-get install clang-14 libclang-rt-14-dev)" >&2
    exit 77
fi

if [ -z "${PYTHON:-}" ]; then
    PYTHON=python3
    [ ! -x "$root/.venv/bin/python" ] || PYTHON=$root/.venv/bin/python
fi
(cd "$root" && "$PYTHON" -m fuzz.c.tables "$work" && "$PYTHON" -m mavcg.runtime.amalgamation "$work")
mkdir "$work/captured"
(cd "$root" && "$PYTHON" -m fuzz.c.captured "$work/captured" >&2)
engine=${LIB_FUZZING_ENGINE:--fsanitize=fuzzer} # OSS-Fuzz has its own
checks="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
common="-std=gnu11 -D_GNU_SOURCE -O1 -g -pthread -Wall -Wextra -I$root/runtime/csrc"
machine= # the C of a library for x86-64 has functions for AVX2 inline
[ "$(uname -m)" != x86_64 ] || machine=-march=x86-64-v3
# Compared numbers are traced where an input's own numbers are compared; elsewhere they are counts of loops, and take
# half of the time.
commands_only=-fno-sanitize-coverage=trace-cmp
version=1
for label in generic a b; do
    # Not what is tested, and where the time goes: without sanitizers.
    "$compiler" $common -O2 -ffp-contract=off -DVERSION=$version -DLABEL="\"$label\"" \
        -c "$root/tests/runtime/engine/kernels.c" -o "$work/$label.o"
    version=$((version + 1))
done

# build_targets FOLDER FLAGS..: every target, with these flags for what is tested
build_targets() {
    made=$1
    shift
    for target in selector chunks; do
        "$compiler" $common -Wno-unused-function "-I$work/$target" "$@" $engine $commands_only "$here/$target.c" \
            -o "$made/$target"
    done
    for part in engine runtime; do
        "$compiler" $common -I$work "$@" -fsanitize=fuzzer-no-link $commands_only -c "$work/$part.c" -o "$work/$part.o"
    done
    "$compiler" $common -I$work "$@" $engine $commands_only "$here/engine.c" "$work/engine.o" "$work/runtime.o" \
        "$work/generic.o" "$work/a.o" "$work/b.o" "$work/constants.o" -o "$made/engine"
    "$compiler" $common -I$work "-I$work/accel" "$@" $engine "$here/accel_image.c" "$work"/accel/*.c -ldl -lm \
        -o "$made/accel_image"
    for target in blas custom_ops delegate shapes states; do
        captured=$work/captured/$target
        for unit in "$captured"/*/; do
            "$compiler" $common -w $machine -ffp-contract=off "$@" -fsanitize=fuzzer-no-link $commands_only "-I$unit" \
                -c "$unit"*.c -o "$captured/unit-$(basename "$unit").o"
        done
        "$compiler" $common "-I$work/captured" "$@" $engine $commands_only "$here/$target.c" "$captured"/*.o -ldl -lm \
            -o "$made/$target"
        rm "$captured"/unit-*.o
    done
}
build_targets "$out" $checks

# The same once more, to count lines: run.py asks llvm-cov of this clang.
mkdir -p "$out/lines"
build_targets "$out/lines" -fprofile-instr-generate -fcoverage-mapping
case $compiler in
*-[0-9]*) echo "-${compiler##*-}" ;;
*) echo ;;
esac >"$out/lines/version"
