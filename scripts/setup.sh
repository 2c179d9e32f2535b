#!/usr/bin/env bash
# Sets up a checkout: a virtual environment, the Debian packages that help, and ziglang's caches.
# Works without root and without Debian: then it says what is left out and goes on.
set -euo pipefail
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}
PACKAGES=(linux-perf qemu-user qemu-user-static qemu-system-arm bochs-term bochs libc6-arm64-cross libeigen3-dev libgemmlowp-dev valgrind g++ clang-format clang-tidy cmake ninja-build ccache yosys verilator openssh-client openssh-server)
say() { printf 'setup: %s\n' "$*" >&2; }

install_packages() {
    local missing=()
    for package in "${PACKAGES[@]}"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        sudo -n true 2>/dev/null || { say "no root: without ${missing[*]}; what needs them is skipped and says so"; return; }
        as_root=(sudo -n)
    fi
    say "installing ${missing[*]}"
    "${as_root[@]}" apt-get update -qq || { say "apt-get update failed: without ${missing[*]}"; return; }
    for package in "${missing[@]}"; do
        DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "$package" \
            >/dev/null 2>&1 || say "$package cannot be installed: going on without it"
        # Tests start a server of their own on loopback; nobody asked for one that the network sees.
        [ "$package" != openssh-server ] ||
            "${as_root[@]}" systemctl disable --now ssh.service ssh.socket >/dev/null 2>&1 || true
    done
}

make_environment() {
    if [ ! -x "$VENV/bin/python" ] || ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
        rm -rf "$VENV"
        if ! "$PYTHON" -m venv "$VENV" 2>/dev/null; then
            rm -rf "$VENV"
            # Debian splits ensurepip off into python3-venv.
            if command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ]; then
                { apt-get update -qq && apt-get install -y -qq python3-venv; } >/dev/null
                "$PYTHON" -m venv "$VENV"
            elif "$PYTHON" -m virtualenv --version >/dev/null 2>&1; then
                "$PYTHON" -m virtualenv -q "$VENV"
            else
                say "$PYTHON has no venv: install python3-venv, or run '$PYTHON -m pip install --user virtualenv' first"
                exit 1
            fi
        fi
    fi
    say "installing mavcg and what it needs into $VENV"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[dev]' 2>"$VENV/install.log" ||
        { cat "$VENV/install.log" >&2; say "installing into $VENV failed"; exit 1; }
}

# The first link for a target makes ziglang build its C and C++ support libraries, which takes minutes; later ones
# take a fraction of a second.
warm_caches() {
    say "building ziglang's C and C++ libraries for ARM Linux (some minutes, once)"
    "$VENV/bin/python" -m scripts.warm_toolchain aarch64-linux-gnu.2.17 || say "warming ziglang's caches failed"
}

if command -v apt-get >/dev/null; then
    install_packages
else
    say "no apt-get: install by hand what you need of ${PACKAGES[*]}"
fi
make_environment
warm_caches
