#!/usr/bin/env bash
# Makes what the agent runs in: jetpack/bootstrap.sh [OPTIONS] (jetpack/README.md). Run again, it changes nothing that is as it should be.
#
#   --dry-run          print the commands, run none
#   --offline WHEELS   take packages from this folder only (jetpack/fetch-wheels fills one)
#   --prefix DIR       the agent's venv; the host's, where it differs, is DIR-host (default /opt/edge-agent)
#   --config DIR       folder of the agent's configuration (default /etc/edge-agent)
#   --jetpack N        4, 5, 6, 7 or none, where the files that tell are missing
#   --python PATH      interpreter to make the agent's venv of
#   --host-python PATH interpreter to make the host's venv of (JetPack 4)
#   --cuda DIR         CUDA to build PyCUDA with (default /usr/local/cuda)
#   --fresh            make the venvs anew
#   --root DIR         where proc/, etc/ and var/ of the board are read (default /)
#
# Ends with 0: all there; 1: a step failed; 2: wrong option; 3: the agent is installed, but something that the GPU or the cameras need is missing.
# It installs no Debian package: it names those that are missing. bash 4.4 and mawk (Ubuntu 18.04) are enough.
set -euo pipefail
umask 022
export LC_ALL=C.UTF-8

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(dirname "$here")
# shellcheck source=jetpack/table.sh
. "$here/table.sh"
readonly here repo BUILD_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

root=''
prefix=/opt/edge-agent
config=/etc/edge-agent
cuda=/usr/local/cuda
jetpack=''
agent_python=''
host_python=''
dry_run=''
fresh=''

family_python=''
agent_constraints=''
host_constraints=''
extra=''
index=()

main() {
    parse "$@"
    jetpack=$(choose_jetpack)
    if [[ $jetpack == none ]]; then
        choose_for_any_linux
    else
        choose_for_jetpack
    fi
    local host=$prefix
    [[ -z $host_constraints || $host_constraints == "$agent_constraints" ]] || host=$prefix-host
    local whole=1
    if is_up_to_date "$host"; then
        say "$prefix is up to date"
    else
        install_agent
        [[ $host == "$prefix" ]] || install_host "$host"
        [[ $jetpack == none ]] || install_pycuda "$host" || whole=''
        [[ -n $whole ]] || say "PyCUDA could not be installed; the rest goes on"
    fi
    run "$prefix/bin/edge-agent" version
    [[ -z $whole ]] || write_file "$prefix/.bootstrap" "$(fingerprint)" # without this mark the next run tries again
    if [[ $jetpack != none ]]; then
        write_file "$config/conf.d/10-jetpack.toml" "$(snippet "$host")"
        check "$host"
    fi
}

# --- options and what follows from them

parse() {
    while (($#)); do
        case $1 in
        --dry-run) dry_run=1 ;;
        --fresh) fresh=1 ;;
        -h | --help)
            sed -n '2,/^[^#]/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --offline | --prefix | --config | --jetpack | --python | --host-python | --cuda | --root)
            (($# > 1)) || usage "$1 needs a value"
            set_option "$1" "$2"
            shift
            ;;
        *) usage "$1 is no option of this" ;;
        esac
        shift
    done
    readonly root prefix config cuda dry_run fresh
}

set_option() { # NAME VALUE
    local value=$2
    if [[ $1 == --jetpack ]]; then
        [[ $value =~ ^(4|5|6|7|none)$ ]] || usage "--jetpack is 4, 5, 6, 7 or none, not $value"
        jetpack=$value
        return
    fi
    [[ -n $value && $value != *[\"\\$'\n']* ]] || usage "$1 is empty or has a quotation mark, a backslash or a line's end in it"
    [[ $value == /* ]] || value=$PWD/$value
    [[ $value == / ]] || value=${value%/}
    case $1 in
    --offline)
        [[ -d $value ]] || usage "$value is no folder with wheels; jetpack/fetch-wheels makes one"
        index=(--no-index --find-links "$value")
        ;;
    --prefix) prefix=$value ;;
    --config) config=$value ;;
    --python) agent_python=$value ;;
    --host-python) host_python=$value ;;
    --cuda) cuda=$value ;;
    --root) root=${value%/} ;;
    esac
}

choose_jetpack() { # prints 4, 5, 6, 7 or none
    local found l4t
    l4t=$(read_l4t)
    if [[ -n $jetpack ]]; then
        echo "$jetpack"
    elif [[ -n $l4t ]]; then
        found=$(family_of_major "${l4t%%.*}")
        [[ -n $found ]] || fail "L4T $l4t is none that this knows; say which JetPack to take it for with --jetpack"
        say "L4T $l4t: JetPack $found" >&2
        echo "$found"
    elif is_tegra; then
        fail "This is a Jetson, but neither etc/nv_tegra_release nor dpkg tells its L4T release; say which JetPack it is with --jetpack"
    else
        say "No Jetson: ONNX Runtime on the CPU" >&2
        echo none
    fi
}

choose_for_any_linux() {
    [[ -n $agent_python ]] || agent_python=$(command -v python3 || echo /usr/bin/python3)
    [[ -n $dry_run ]] || "$agent_python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null ||
        fail "$agent_python does not start or is older than 3.8, which the agent needs; name another with --python"
    extra=cpu
}

choose_for_jetpack() { # interpreters by their full names: many a python3 was re-linked
    family_python=$(family_value "$jetpack" python)
    local own
    own=$(family_value "$jetpack" agent_python)
    agent_constraints=$here/$(family_value "$jetpack" agent_constraints)
    host_constraints=$here/$(family_value "$jetpack" host_constraints)
    [[ -n $agent_python ]] || agent_python=/usr/bin/python$own
    [[ -n $host_python ]] || host_python=/usr/bin/python$family_python
    extra=jetson
}

# --- the board: the same sources as edge_agent/device/l4t.py, which a test holds this against

read_l4t() {
    local line='' pattern='^#[[:space:]]*R([0-9]{1,4})[[:space:]]*\(release\),[[:space:]]*REVISION:[[:space:]]*([0-9]{1,4}(\.[0-9]{1,4}){0,2})([^0-9.]|$)'
    if [[ -f $root/etc/nv_tegra_release && -r $root/etc/nv_tegra_release ]]; then
        IFS= read -r -n 4096 line <"$root/etc/nv_tegra_release" || true
        if [[ $line =~ $pattern ]]; then
            echo "${BASH_REMATCH[1]}.${BASH_REMATCH[2]}"
            return
        fi
    fi
    if is_tegra && [[ -f $root/var/lib/dpkg/status && -r $root/var/lib/dpkg/status ]]; then
        LC_ALL=C awk '
            /^Package:/ { package = $2 } /^Version:/ { version = $2 } /^Status:/ { status = $NF }
            /^[ \t\r]*$/ { stanza() } END { stanza() }
            function stanza() { if (package == "nvidia-l4t-core" && status == "installed" && !told) { print version; told = 1 }
                                package = version = status = "" }
        ' "$root/var/lib/dpkg/status" | grep -aoE '^[0-9]{1,4}(\.[0-9]{1,4}){1,3}([^0-9.]|$)' | grep -oE '^[0-9.]+' || true
    fi
}

is_tegra() {
    [[ -f $root/proc/device-tree/compatible && -r $root/proc/device-tree/compatible ]] &&
        tr '\0' '\n' <"$root/proc/device-tree/compatible" | grep -qaE '^nvidia,tegra[0-9]{3}$'
}

# --- the steps

install_agent() {
    local seen=() source=$prefix-source
    # the children run in the agent's venv unless they have their own: then JetPack's packages must be seen from it
    [[ -z $agent_constraints || $agent_constraints != "$host_constraints" ]] || seen=(--system-site-packages)
    make_venv "$prefix" "$agent_python" ${seen[@]+"${seen[@]}"}
    local limits=()
    [[ -z $agent_constraints ]] || limits=(-c "$agent_constraints")
    # a copy, as building leaves its files in the folder, and an old build's would get into the next
    run rm -rf "$source"
    run mkdir -p "$source"
    run cp -r "$repo/edge_agent" "$repo/pyproject.toml" "$repo/README.md" "$source"
    pip "$prefix" ${limits[@]+"${limits[@]}"} --upgrade pip "setuptools>=61" wheel # first: old ones know no wheels of today
    pip "$prefix" ${limits[@]+"${limits[@]}"} --no-build-isolation "${source}[$extra]"
    run rm -rf "$source"
}

install_host() { # VENV
    make_venv "$1" "$host_python" --system-site-packages
    # OpenBLAS in numpy 1.19.5 mistakes these boards' processor; a line in a .pth is carried out before anything is imported, in -I too
    write_file "$1/lib/python$family_python/site-packages/edge_agent_openblas.pth" \
        'import os; os.environ.setdefault("OPENBLAS_CORETYPE", "ARMV8")'
    pip "$1" -c "$host_constraints" --upgrade pip setuptools wheel
    pip "$1" -c "$host_constraints" numpy
}

install_pycuda() { # VENV: from source, against this board's CUDA; without it the agent still serves, so it does not end the rest
    run env "CUDA_ROOT=$cuda" "PATH=$cuda/bin:$BUILD_PATH" "LIBRARY_PATH=$cuda/lib64/stubs" \
        "$1/bin/python" -m pip install --disable-pip-version-check ${index[@]+"${index[@]}"} -c "$host_constraints" --no-build-isolation pycuda
}

make_venv() { # VENV PYTHON [OPTION]
    local venv=$1 python=$2
    shift 2
    [[ -n $fresh ]] || ! is_venv "$venv" "$python" "$@" || return 0
    if [[ -z $dry_run ]]; then
        "$python" -c 'import sys' 2>/dev/null || fail "$python does not start here; $(cure_python "$python")"
        "$python" -c 'import venv, ensurepip' 2>/dev/null || fail "$python makes no venvs here; $(cure_python "$python")"
        [[ ! -e $venv || -f $venv/pyvenv.cfg || -z $(ls -A "$venv") ]] ||
            fail "$venv is there and is no venv: nothing in it is touched; name another place with --prefix"
    fi
    if [[ -f $venv/pyvenv.cfg ]]; then
        run "$python" -m venv --clear "$@" "$venv"
    else
        run "$python" -m venv "$@" "$venv"
    fi
}

is_venv() { # VENV PYTHON [--system-site-packages]: one that starts, of that interpreter's version, that sees what it should
    local wanted=false
    [[ ${3:-} != --system-site-packages ]] || wanted=true
    grep -qix "include-system-site-packages *= *$wanted" "$1/pyvenv.cfg" 2>/dev/null || return 1
    "$1/bin/python" -m pip --version >/dev/null 2>&1 && [[ $("$1/bin/python" -VV 2>/dev/null) == "$("$2" -VV 2>/dev/null)" ]]
}

is_up_to_date() { # HOST-VENV
    local seen=()
    [[ -z $agent_constraints || $agent_constraints != "$host_constraints" ]] || seen=(--system-site-packages)
    [[ -z $fresh && -f $prefix/.bootstrap && $(cat "$prefix/.bootstrap") == "$(fingerprint)" ]] &&
        is_venv "$prefix" "$agent_python" ${seen[@]+"${seen[@]}"} &&
        { [[ $1 == "$prefix" ]] || is_venv "$1" "$host_python" --system-site-packages; }
}

fingerprint() { # of all that decides what is installed
    {
        (cd "$repo" && find edge_agent pyproject.toml -type f ! -name '*.pyc' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
        sha256sum <"${BASH_SOURCE[0]}"
        [[ -z $agent_constraints ]] || cat "$agent_constraints" "$host_constraints"
        "$agent_python" -VV 2>&1 || true
        [[ -z $host_python ]] || "$host_python" -VV 2>&1 || true
        echo "$jetpack $prefix $extra"
    } | sha256sum | cut -d' ' -f1
}

pip() { # VENV ARGUMENTS
    local venv=$1
    shift
    run "$venv/bin/python" -m pip install --disable-pip-version-check ${index[@]+"${index[@]}"} "$@"
}

snippet() { # HOST-VENV
    cat <<TOML
# Written by jetpack/bootstrap.sh (JetPack $jetpack), anew at each run. What is to differ goes into a later file of this folder.

[hosts.gpu]
python = "$1/bin/python"

[vision]
python = "$1/bin/python"
TOML
}

# --- the checks

check() { # HOST-VENV
    local module missing=0
    for module in tensorrt pycuda.driver cv2; do
        check_module "$1/bin/python" "$module" || missing=1
    done
    ((missing == 0)) || exit 3
}

check_module() { # PYTHON MODULE: in a process each, as an import can end one
    local code said
    code="import $2 as m; import numpy; print(getattr(m, '__version__', ''), m.__file__, 'numpy', numpy.__version__)"
    if [[ -n $dry_run ]]; then
        run "$1" -I -c "$code"
        return 0
    fi
    if said=$(timeout 120 "$1" -I -c "$code" 2>&1); then
        say "found   $2 ${said##*$'\n'}"
        return 0
    fi
    said=${said##*$'\n'}
    say "MISSING $2: ${said:-the import ended its process}" "        $(cure "$2")"
    return 1
}

cure() { # MODULE
    case $1 in
    tensorrt) echo "apt-get install python3-libnvinfer (part of nvidia-jetpack), then run this again. Until then ONNX Runtime serves." ;;
    cv2) echo "apt-get install libopencv-python (part of nvidia-jetpack; elsewhere python3-opencv), then run this again. Until then no camera works." ;;
    *) echo "apt-get install build-essential python${family_python}-dev nvidia-jetpack (CUDA must lie at $cuda, or say --cuda), then run this again." \
        "Until then ONNX Runtime serves." ;;
    esac
}

cure_python() { # PYTHON
    local name
    name=$(basename "$1")
    echo "apt-get install $name $name-venv (on Ubuntu 18.04 with universe enabled), then run this again"
}

# --- how it speaks and acts

run() { # COMMAND: printed so that it can be pasted; run unless --dry-run
    local word line='+'
    for word in "$@"; do
        line+=" $(printf '%q' "$word")"
    done
    printf '%s\n' "$line"
    [[ -n $dry_run ]] || "$@" || return 1
}

write_file() { # PATH TEXT: only when it says something else, in one step
    [[ ! -f $1 || $(cat "$1") != "$2" ]] || return 0
    printf '> %s\n' "$1"
    if [[ -n $dry_run ]]; then
        printf '%s\n' "$2" | sed 's/^/  | /'
        return 0
    fi
    mkdir -p "$(dirname "$1")"
    printf '%s\n' "$2" >"$1.new"
    mv -f "$1.new" "$1"
}

say() {
    printf '%s\n' "$@"
}

fail() {
    printf 'bootstrap: %s\n' "$*" >&2
    exit 1
}

usage() {
    printf 'bootstrap: %s; --help tells the options\n' "$*" >&2
    exit 2
}

main "$@"
