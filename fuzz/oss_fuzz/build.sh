#!/bin/bash -eu
# Builds every fuzz target into $OUT, as OSS-Fuzz asks: programs, and their corpora as NAME_seed_corpus.zip.
# The environment is that of base-builder-python: $SRC, $OUT, $CC, $LIB_FUZZING_ENGINE and compile_python_fuzzer.
cd "$SRC/mavcg"
pip3 install '.[check,models,quantise,explore,zstd]'

stubs=$(mktemp -d)
for path in fuzz/targets/[a-z]*.py; do
    name=$(basename "$path" .py)
    cat >"$stubs/$name.py" <<STUB
import sys

import fuzz.targets.$name
from fuzz.one import main

main(["$name", *sys.argv[1:]])
STUB
    compile_python_fuzzer "$stubs/$name.py" --paths . --collect-all mavcg --collect-submodules fuzz
done

if [ "${SANITIZER:-address}" != none ]; then
    CLANG=$CC PYTHON=python3 sh fuzz/c/build.sh "$OUT"
fi

for folder in fuzz/corpus/*/; do
    name=$(basename "$folder")
    (cd "$folder" && zip -q "$OUT/${name}_seed_corpus.zip" *)
done
