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

# promtool in DIR, unpacked only: installed, its package would start a Prometheus server.
need_promtool()
{
    local directory=$1 unpacked
    if command -v promtool >/dev/null || [[ -x $directory/promtool ]]; then
        return 0
    fi
    say "fetching promtool"
    unpacked=$(mktemp -d)
    unpack "$unpacked" prometheus
    mkdir -p "$directory"
    cp "$unpacked/usr/bin/promtool" "$directory/"
    rm -rf "$unpacked"
}

# Debian's own Node and what it needs in DIR, beside the one that is installed, which may be another.
need_debian_node()
{
    if [[ ! -x $1/usr/bin/node ]]; then
        say "fetching Debian's Node"
        rm -rf "$1"
        unpack "$1" 'nodejs=18.*' libnode108 libuv1 libc-ares2 libicu72 libnghttp2-14 libbrotli1 node-acorn \
            node-cjs-module-lexer node-undici node-busboy
    fi
}

# fetch_closure DIR PACKAGE...: Debian's packages and all that they depend on in DIR/archives, whatever is installed here.
fetch_closure()
{
    local directory=$1 log=$1/log fetch
    mkdir -p "$directory/archives/partial"
    : >"$directory/installed"
    fetch=(apt-get -q -y --download-only --no-install-recommends -o Dir::State::status="$directory/installed" -o Dir::Cache="$directory"
        -o Debug::NoLocking=1 install "${@:2}")
    if ! "${fetch[@]}" >"$log" 2>&1 && ! { as_root apt-get -q update && "${fetch[@]}"; } >>"$log" 2>&1; then
        die "Debian's packages cannot be fetched ($log): $({ grep '^[EW]: Failed' "$log" || grep '^E:' "$log"; } | tail -n 1)"
    fi
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
    fetch_closure "$made" bash coreutils dash mount 'nodejs=18.*' python3 util-linux
    for name in bin lib lib64 sbin; do
        mkdir -p "$root/usr/$name"
        ln -s "usr/$name" "$root/$name"
    done
    for archive in "$made"/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$archive" | tar --extract --directory "$root" --preserve-permissions --no-same-owner \
            --keep-directory-symlink --exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale'
    done
    # As its packages do when they are installed.
    /usr/bin/python3 -m compileall -q -j 0 -s "$root" "$root/usr/lib/python3.11"
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

# What reads the sources.
# shellcheck disable=SC2034
LINT_PACKAGES=(git clang-tidy clang-format cppcheck shellcheck python3)
