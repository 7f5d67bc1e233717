# SPDX-License-Identifier: Apache-2.0
# First contact with a device: what it is, told as KEY=VALUE lines. Needs a POSIX shell and what busybox has, no Python.
# Arguments: folders in which files might be kept.
say() { printf '%s=%s\n' "$1" "$2"; }

say system "$(uname -s)"
say machine "$(uname -m)"
say kernel "$(uname -r)"
say user "$(id -u)"
say bits "$(getconf LONG_BIT 2>/dev/null)"

libc=$(getconf GNU_LIBC_VERSION 2>/dev/null)
case $libc in
glibc*) ;;
*)
    libc=$(ldd --version 2>&1 | sed -n '1{s/^ldd .* \([0-9.]*\)$/glibc \1/p;}')
    for loader in /lib/ld-musl-*; do [ -z "$libc" ] && [ -e "$loader" ] && libc=musl; done
    ;;
esac
say libc "$libc"

tree=/proc/device-tree
say model "$({ tr -d '\0' < $tree/model; } 2>/dev/null)"
say compatible "$({ tr '\0' ' ' < $tree/compatible; } 2>/dev/null)"
while read -r key value _; do
    [ "$key" = MemTotal: ] && say memory_kib "$value"
done < /proc/meminfo

# A Python without its whole library (python3-minimal) is of no use, nor one whose pointers are not the kernel's.
for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9; do
    for python in $(command -v "$name") /usr/local/bin/"$name"; do
        [ -x "$python" ] && say python "$("$python" -c '
import os, struct, sys
lacks = []
for name in ("ctypes", "gzip", "hashlib", "json", "multiprocessing", "tarfile"):
    try:
        __import__(name)
    except ImportError:
        lacks.append(name)
libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
print("%d.%d.%d %d %s %s %s %s" % (sys.version_info[:3] + (8 * struct.calcsize("P"), sys.abiflags or "-",
      ",".join(lacks) or "-", (libc or "-").replace(" ", "-"), sys.executable)))' 2>/dev/null)"
    done
done

for folder in "$@"; do
    case $folder in /*) ;; *) continue ;; esac # a variable of the device's that holds no path
    above=$folder
    while [ ! -d "$above" ]; do
        above=${above%/*}
        above=${above:-/}
    done
    state=ok
    probe=${above%/}/.edgedeploy-probe-$$
    if [ -d "$folder" ] && [ ! -O "$folder" ]; then
        state=foreign
    elif [ "$above" = / ]; then
        state=absent
    elif ! (set -C; umask 077; printf '#!/bin/sh\nexit 0\n' > "$probe") 2>/dev/null; then
        state=readonly
        [ -e "$probe" ] && state=full
    elif ! { chmod 700 "$probe" && "$probe"; } 2>/dev/null; then
        state=noexec
    elif [ "$(wc -c < "$probe")" -ne 17 ]; then
        state=full
    fi
    case $state in foreign | absent) ;; *) rm -f "$probe" ;; esac
    say folder "$state $(df -Pk "$above" 2>/dev/null | { read -r _; read -r _ _ _ free _; echo "${free:--1}"; }) $folder"
done
