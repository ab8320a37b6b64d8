#!/usr/bin/env bash
# Install what the tests call and this machine lacks, from the distribution's packages (Debian, Ubuntu).
set -euo pipefail

# A file or a command, and the packages that bring it.
wanted=(
    "gcc gcc libc6-dev"
    "objdump binutils"
    "make make"
    "ip iproute2"
    "iptables iptables"
    "setpriv util-linux"
    "openssl openssl"
    "bochs-bin bochs bochs-term"
    "qemu-aarch64 qemu-user"
    "/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1 libc6-arm64-cross"
    "node nodejs"
    "chromium chromium"
    "chromedriver chromium-driver"
    "/usr/bin/docker docker.io"
    "dockerd docker.io"
    "mmdebstrap mmdebstrap"
    "cargo cargo rustc"
    "/usr/share/doc/librust-image-dev librust-image-dev"
    "pkg-config pkg-config"
    "/usr/include/jpeglib.h libjpeg-dev"
    "/usr/include/png.h libpng-dev"
    "go golang-go"
    "valgrind valgrind"
    "java default-jre-headless"
)
export PATH="$PATH:/usr/sbin:/sbin"

lacking() {
    for line in "${wanted[@]}"; do
        read -r tool packages <<< "$line"
        command -v "$tool" > /dev/null || [ -e "$tool" ] || echo "$tool $packages"
    done
}

missing=$(lacking)
test -n "$missing" || { echo "every tool of the tests is here"; exit 0; }
packages=$(cut -d' ' -f2- <<< "$missing" | tr ' ' '\n' | sort -u | tr '\n' ' ')
command -v apt-get > /dev/null || { echo "there is no apt-get; install what these are here: $packages" >&2; exit 1; }
root=(); test "$(id -u)" = 0 || root=(sudo)

echo "installing $packages"
# Docker's package would start the system's engine; the tests start a private one. Status 101: "not allowed".
policy=$(mktemp -d); trap 'rm -rf "$policy"' EXIT
printf '#!/bin/sh\nexit 101\n' > "$policy/policy-rc.d"; chmod +x "$policy/policy-rc.d"
"${root[@]}" apt-get -qq update
# shellcheck disable=SC2086
"${root[@]}" env DEBIAN_FRONTEND=noninteractive POLICYRCD="$policy/policy-rc.d" \
    apt-get -qq install --yes --no-install-recommends $packages > /dev/null

missing=$(lacking)
test -z "$missing" || { echo "still not here: $missing" >&2; exit 1; }
