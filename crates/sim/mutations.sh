#!/usr/bin/env bash
# Plants bugs in a copy of the engine, and says which suite catches which.
#
#   crates/sim/mutations.sh DIR [NAME…]
#
# DIR takes the copy and what is built of it; NAMEs choose some of the bugs. Every file of mutations/ is a patch
# with a bug that sleeps until SILTSTONE_PLANTED names it, so that all of them are built once; its head says what
# is wrong and which suites have to look. They apply one after the other. One that no longer applies ends it, and
# so does a suite that fails while all bugs sleep. A bug that no suite catches survives, and the exit code is 1.
# The suites `threads` (whole stores) and `interleavings` (pieces of the engine) have threads that a scheduler runs, and
# are built for that, in a target directory of their own; see "Threads" in docs/testing.md.
# MUTATIONS_RUN is a command that builds and suites are run with, such as `nice`.
set -euo pipefail

[ $# -ge 1 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "$1"
work=$(cd "$1" && pwd)
shift

tree=$work/tree
mkdir -p "$tree"
# Only what has changed is written, so that little is built again.
(cd "$root" && git ls-files -z --cached --others --exclude-standard) >"$work/files"
rm -rf "$work/fresh" && mkdir "$work/fresh"
(cd "$root" && tar c --null --ignore-failed-read -T "$work/files" 2>/dev/null) | tar x -C "$work/fresh"
cp "$here/mutations/planted.rs" "$work/fresh/crates/engine/src/planted.rs"
sed -i '0,/^mod /s//mod planted;\nmod /' "$work/fresh/crates/engine/src/lib.rs"
grep -q '^mod planted;' "$work/fresh/crates/engine/src/lib.rs"
for patch in "$here"/mutations/*.patch; do
  # The copy may lie within the repository, which is none of its own.
  (cd "$work/fresh" && GIT_CEILING_DIRECTORIES=$work git apply "$patch") ||
    { echo "$(basename "$patch") no longer applies: bring it up to date" >&2; exit 2; }
done
(cd "$work/fresh" && find . -type f -print0) | while IFS= read -r -d '' file; do
  cmp -s "$work/fresh/$file" "$tree/$file" || { mkdir -p "$tree/$(dirname "$file")"; cp "$work/fresh/$file" "$tree/$file"; }
done
rm -rf "$work/fresh"

field() { sed -n "s/^$1: //p" "$2"; }
export CARGO_TARGET_DIR=$work/target
prefix=${MUTATIONS_RUN:-}
cd "$tree"

# Builds or runs what has its threads from a scheduler.
scheduled() { RUSTFLAGS="--cfg siltstone_shuttle" CARGO_TARGET_DIR=$work/target-shuttle "$@"; }

# The test program that a suite of the engine is a module of.
program_of() {
  local file
  file=$(find "$tree"/crates/engine/tests/{answers,designs,durability} -name "$1.rs")
  basename "$(dirname "$file")"
}

# Runs a suite; one that does not end in half an hour is as good as one that fails.
run() {
  case $1 in
    threads) timeout 1800 "$work/target-shuttle/debug/siltstone-sim" threads --seed 1 --schedules 40000 ;;
    # shellcheck disable=SC2086
    interleavings) SILTSTONE_SCHEDULES=10 scheduled $prefix timeout 1800 cargo test -q -p siltstone --lib interleavings ;;
    sim) timeout 1800 "$CARGO_TARGET_DIR/debug/siltstone-sim" --seed 1 --worlds 40 --depth 4 --stop ;;
    # shellcheck disable=SC2086
    *) $prefix timeout 1800 cargo test -q -p siltstone --test "$(program_of "$1")" "$1::" ;;
  esac >"$work/output" 2>&1
}

declare -A caught missed
# Builds the suites named, and has each look at the bugs that it has to look at.
look() {
  local tests=() suite patch name
  for suite in "$@"; do
    # shellcheck disable=SC2086
    case $suite in
      sim) $prefix cargo build -q --profile test -p siltstone-sim ;;
      threads) scheduled $prefix cargo build -q --profile test -p siltstone-sim ;;
      interleavings) scheduled $prefix cargo test -q --no-run -p siltstone --lib ;;
      *) tests+=(--test "$(program_of "$suite")") ;;
    esac
  done
  # shellcheck disable=SC2086
  [ ${#tests[@]} -eq 0 ] || $prefix cargo test -q --no-run -p siltstone "${tests[@]}"
  for suite in "$@"; do
    SILTSTONE_PLANTED='' run "$suite" ||
      { tail -n 30 "$work/output"; echo "$suite fails without any bug" >&2; exit 2; }
    for patch in "${chosen[@]}"; do
      name=$(name_of "$patch")
      [[ " $(field Suites "$patch") " == *" $suite "* ]] || continue
      if SILTSTONE_PLANTED=$name run "$suite"; then missed[$name]+=" $suite"; else caught[$name]+=" $suite"; fi
      echo "$suite, $name: caught by${caught[$name]:- none}" >&2
    done
  done
}

name_of() { basename "$1" .patch | sed 's/^[0-9]*-//'; }
chosen=()
for patch in "$here"/mutations/*.patch; do
  [ $# -eq 0 ] || [[ " $* " == *" $(name_of "$patch") "* ]] || continue
  chosen+=("$patch")
done
mapfile -t suites < <(for patch in "${chosen[@]}"; do field Suites "$patch"; done | tr ' ' '\n' | sort -u)
# Suite by suite where a build is of its own; the others are built together.
mapfile -t alone < <(printf '%s\n' "${suites[@]}" | grep -xE 'sim|threads|interleavings')
mapfile -t together < <(printf '%s\n' "${suites[@]}" | grep -vxE 'sim|threads|interleavings')
for suite in "${alone[@]}"; do look "$suite"; done
look "${together[@]}"

echo "| bug | caught by | not by |"
echo "|---|---|---|"
survivors=0
for patch in "${chosen[@]}"; do
  name=$(name_of "$patch")
  [ -n "${caught[$name]:-}" ] || { survivors=$((survivors + 1)); caught[$name]=' **nothing**'; }
  echo "| $name: $(field Bug "$patch") |${caught[$name]} |${missed[$name]:-} |"
done
echo "$survivors of ${#chosen[@]} survived"
[ "$survivors" -eq 0 ]
