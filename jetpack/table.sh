# shellcheck shell=bash
# Reading matrix.toml, sourced by bootstrap.sh and fetch-wheels: they may have to do before any Python is there that could.

TABLE=$(dirname "${BASH_SOURCE[0]}")/matrix.toml

# shellcheck disable=SC2016  # awk's own variables
READ_ROW='
    { key = value = "" }
    /^\[\[/ { section = $0; gsub(/[^a-z]/, "", section); row = "" }
    /^[a-z0-9_]+ = / { key = $1; value = $0; sub(/^[^=]*= /, "", value); sub(/ +#.*$/, "", value); gsub(/"/, "", value) }
'
readonly TABLE READ_ROW

family_of_major() { # L4T-MAJOR: the JetPack family; nothing when no row has it
    awk -v major="$1" "$READ_ROW"'
        section == "family" && key == "jetpack" { row = value }
        section == "family" && key == "l4t_majors" { count = split(value, majors, /[^0-9]+/); for (i = 1; i <= count; i++) if (majors[i] == major) print row }
    ' "$TABLE"
}

family_value() { # JETPACK KEY
    awk -v jetpack="$1" -v wanted="$2" "$READ_ROW"'
        section == "family" && key == "jetpack" { row = value }
        section == "family" && row == jetpack && key == wanted { print value }
    ' "$TABLE"
}
