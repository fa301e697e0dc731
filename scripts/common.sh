# shellcheck shell=bash
# What the scripts share: progress, errors, and the installing of Debian packages. Sourced, never run.

say()
{
    printf '%s: %s\n' "${0##*/}" "$*" >&2
}

die()
{
    say "$*"
    exit 1
}

# Runs a command as root: directly, or through sudo where that works without asking.
as_root()
{
    if [[ $(id -u) -eq 0 ]]; then
        "$@"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        return 77
    fi
}

# The release of Debian that this is, by its name.
debian_release()
{
    (. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
}

package_missing()
{
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) != installed ]]
}

# Installs those of the named Debian packages that are not there. Touches nothing where none is missing.
need_packages()
{
    local missing=() name
    command -v dpkg-query >/dev/null || die "this is not a Debian system; install the equivalents of: $*"
    for name in "$@"; do
        if package_missing "$name"; then
            missing+=("$name")
        fi
    done
    if [[ ${#missing[@]} -eq 0 ]]; then
        return 0
    fi
    as_root true || die "missing packages, and neither root nor sudo is at hand; run: apt-get install ${missing[*]}"
    say "installing ${missing[*]}"
    local log
    log=$(mktemp)
    if ! as_root apt-get -q update >"$log" 2>&1 || ! apt_install "$log" "${missing[@]}"; then
        cat "$log" >&2
        rm -f "$log"
        die "apt-get could not install ${missing[*]}"
    fi
    rm -f "$log"
}

# apt_install LOG PACKAGE...: everything goes to the log, the downloads and installations to the terminal, too.
apt_install()
{
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${@:2}" 2>&1 |
        tee "$1" | sed -n 's/^\(Get:[0-9]*\) [^ ]* [^ ]* [^ ]* \([^ ]*\) .*/  \1 \2/p; s/^Setting up /  &/p' >&2
    return "${PIPESTATUS[0]}"
}

# unpack DIR PACKAGE...: the files of Debian's packages, below DIR, without installing them.
unpack()
{
    local directory=$1 archive
    shift
    mkdir -p "$directory/archives"
    (
        cd "$directory/archives" && { apt-get download -q "$@" || { as_root apt-get update && apt-get download -q "$@"; }; } &&
            for archive in *.deb; do
                dpkg-deb --extract "$archive" .. || exit
            done
    ) >"$directory/log" 2>&1 || { cat "$directory/log" >&2; die "cannot be downloaded: $*"; }
    rm -rf "$directory/archives" "$directory/log"
}

# prometheus and promtool in DIR, unpacked only: installed, the package would start a server.
need_prometheus()
{
    local directory=$1 unpacked
    if { command -v promtool && command -v prometheus; } >/dev/null || [[ -x $directory/promtool && -x $directory/prometheus ]]; then
        return 0
    fi
    say "fetching Prometheus"
    unpacked=$(mktemp -d)
    unpack "$unpacked" prometheus
    mkdir -p "$directory"
    cp "$unpacked/usr/bin/"{promtool,prometheus} "$directory/"
    rm -rf "$unpacked"
}

# The seccomp profile that Podman and others begin with, as FILE: what is imported in tests.
need_seccomp_profile()
{
    local unpacked
    if [[ -e $1 ]]; then
        return 0
    fi
    say "fetching a seccomp profile"
    unpacked=$(mktemp -d)
    unpack "$unpacked" golang-github-containers-common
    mkdir -p "${1%/*}"
    cp "$unpacked/usr/share/containers/seccomp.json" "$1"
    rm -rf "$unpacked"
}

# fetch_closure DIR PACKAGE...: Debian's packages and all that they depend on in DIR/archives, whatever is installed here and whatever
# others have packages of the same name.
fetch_closure()
{
    local directory=$1 log=$1/log fetch
    mkdir -p "$directory/archives/partial"
    directory=$(realpath "$directory")
    : >"$directory/installed"
    fetch=(apt-get -q -y --target-release o=Debian --download-only --no-install-recommends -o Debug::NoLocking=1
        -o Dir::State::status="$directory/installed" -o Dir::Cache="$directory" install "${@:2}")
    if ! "${fetch[@]}" >"$log" 2>&1 && ! { as_root apt-get -q update && "${fetch[@]}"; } >>"$log" 2>&1; then
        die "Debian's packages cannot be fetched ($log): $({ grep '^[EW]: Failed' "$log" || grep '^E:' "$log"; } | tail -n 1)"
    fi
}

# Debian's own Node and what it needs in DIR, beside the one that is installed, which may be another. But for the C library, of which
# the loader is the host's.
need_debian_node()
{
    local made=$1.making archive
    if [[ -x $1/usr/bin/node ]]; then
        return 0
    fi
    say "fetching Debian's Node"
    rm -rf "$1" "$made"
    fetch_closure "$made" nodejs
    rm "$made"/archives/libc6_*.deb
    for archive in "$made"/archives/*.deb; do
        dpkg-deb --extract "$archive" "$made/root"
    done
    mv "$made/root" "$1"
    rm -rf "$made"
}

# Debian's Python, Node and shell, with what they need of Debian and nothing else, as an OCI layout in DIR, its image called `debian`.
need_debian_image()
{
    local made=$1.making root archive name
    if [[ -e $1/index.json ]]; then
        return 0
    fi
    say "making an image of Debian's packages"
    rm -rf "$1" "$made"
    mkdir -p "$made"
    made=$(realpath "$made")
    root=$made/root
    fetch_closure "$made" bash coreutils dash mount nodejs python3 util-linux
    for name in bin lib lib64 sbin; do
        mkdir -p "$root/usr/$name"
        ln -s "usr/$name" "$root/$name"
    done
    for archive in "$made"/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$archive" | tar --extract --directory "$root" --preserve-permissions --no-same-owner \
            --keep-directory-symlink --exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale'
    done
    # As its packages do when they are installed.
    /usr/bin/python3 -m compileall -q -j 0 -s "$root" "$root"/usr/lib/python3.*
    umoci init --layout "$made/layout"
    umoci new --image "$made/layout:debian"
    umoci insert --rootless --image "$made/layout:debian" "$root" /
    chmod -R a+rX "$made/layout" # some tests run as another user
    mv "$made/layout" "$1"
    rm -rf "$made"
}

# What `make` needs.
# shellcheck disable=SC2034 # used by those who source this
BUILD_PACKAGES=(gcc libc6-dev make pkg-config linux-libc-dev protobuf-c-compiler libprotobuf-c-dev libnl-3-dev
    libseccomp-dev libcjson-dev libcurl4-openssl-dev libmagic-dev nettle-dev libpython3-dev python3)

# What `make` needs of the machine that is built for, where that is another one.
# shellcheck disable=SC2034
CROSS_PACKAGES=(libc6-dev linux-libc-dev libprotobuf-c-dev libnl-3-dev libseccomp-dev libcjson-dev libcurl4-openssl-dev
    libmagic-dev nettle-dev libpython3-dev libcmocka-dev)

# What makes packages of what is built, and reads them.
# shellcheck disable=SC2034
PACKAGE_PACKAGES=(build-essential debhelper dh-apparmor dpkg-dev lintian)

# What reads the sources.
# shellcheck disable=SC2034
LINT_PACKAGES=(git clang-tidy clang-format cppcheck shellcheck python3)

# What the tests use, besides.
# shellcheck disable=SC2034
TEST_PACKAGES=(libcmocka-dev python3-pytest python3-yaml protobuf-compiler curl jq binutils strace crun iproute2 util-linux
    python3-pip python3-setuptools-whl python3-wheel-whl nodejs npm esbuild skopeo umoci uidmap
    python3-numpy python3-pandas python3-matplotlib ruby g++)
