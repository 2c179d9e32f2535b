#!/usr/bin/env bash
# Installs Debian's clang with libFuzzer, which `make fuzz` needs for the C targets (250 MB); does nothing where it is there.
# Works without root and without Debian: then it says so, and the C targets are left out.
set -euo pipefail
say() { printf 'fuzz: %s\n' "$*" >&2; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d && n ? 0 : 0; }' >"$folder/try.c"
for each in ${CLANG:-clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14}; do
    "$each" -fsanitize=fuzzer,address "$folder/try.c" -o "$folder/try" 2>/dev/null && exit 0
done
by_hand="no C targets; install a clang with libFuzzer by hand (Debian: clang-14 libclang-rt-14-dev)"
command -v apt-get >/dev/null || { say "no apt-get: $by_hand"; exit 0; }
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || { say "no root: $by_hand"; exit 0; }
    as_root=(sudo -n)
fi
"${as_root[@]}" apt-get update -qq || { say "apt-get update failed: $by_hand"; exit 0; }
version=$(apt-cache depends clang 2>/dev/null | sed -n 's/^ *Depends: clang-\([0-9]*\)$/\1/p' || true)
[ -n "$version" ] || { say "apt-get knows no package clang: $by_hand"; exit 0; }
packages=("clang-$version" "libclang-rt-$version-dev")
say "installing ${packages[*]}"
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${packages[@]}" \
    >/dev/null 2>&1 || say "${packages[*]} cannot be installed: $by_hand"
