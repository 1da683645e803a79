#!/usr/bin/env bash
# A disk that is really full, really read-only or not there (root; skipped where
# nothing can be mounted): one clear line each, nothing lost, and on the same
# records when there is room again.
# usage: tests/faults/full_disk.sh PROGRAM
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/../.."

work=$(mktemp -d /tmp/oppa-disk-XXXXXX)
trap 'status=$?; umount "$work/small" "$work/frozen" 2>/dev/null || true; rm -rf "$work"; exit $status' EXIT
fail() { echo "full_disk: $1" >&2; exit 1; }
mkdir "$work/small" "$work/frozen"
if ! mount -t tmpfs -o size=4m tmpfs "$work/small" 2>/dev/null; then
  echo "full_disk: skipped: nothing can be mounted here"
  exit 0
fi

for folder in workloads clusters rules; do ln -s "$PWD/experiments/$folder" "$work/$folder"; done
sed 's/^methods = .*/methods = ["vanilla-bo"]/; s/^trials = .*/trials = 24/' experiments/smoke.toml >"$work/m.toml"
run() { "$program" run "$work/m.toml" --repeats 1 --no-report --jobs 1 --results "$1"; }
rows() { grep -c '^[0-9]' "$work/small/m/vanilla-bo/1/$1" 2>/dev/null || true; }
run "$work/whole" >/dev/null

# The disk fills up under a run: half of the records' size is left.
size=$(du -sb "$work/whole/m/vanilla-bo/1" | cut -f1)
free=$(df --output=avail -B1 "$work/small" | tail -n 1)
head -c "$((free - size / 2 / 4096 * 4096 - 16384))" /dev/zero >"$work/small/ballast"
run "$work/small" >"$work/out" 2>&1 && fail "a run on a full disk says that it is done"
line=$(grep -E 'No space left|disk that holds .* is full' "$work/out") || fail "no word of the disk: $(cat "$work/out")"
[ "$(wc -l <<<"$line")" -eq 1 ] || fail "not one line: $line"
kept=$(rows trials.csv)
before=$(head -n "$((kept + 2))" "$work/small/m/vanilla-bo/1/trials.csv" 2>/dev/null || true)
"$program" status "$work/m.toml" --repeats 1 --results "$work/small" >/dev/null || fail "status on a full disk"
rm "$work/small/ballast"
run "$work/small" >/dev/null || fail "with room again: $(cat "$work/small/m/vanilla-bo/1/log.txt")"
[ "$before" = "$(head -n "$((kept + 2))" "$work/small/m/vanilla-bo/1/trials.csv")" ] || [ -z "$before" ] || fail "rows were lost"
for file in trials.csv steps.csv fits.csv; do
  cmp "$work/whole/m/vanilla-bo/1/$file" "$work/small/m/vanilla-bo/1/$file" || fail "$file differs"
done
echo "full_disk: full after $kept trials, said so in one line, went on to the same records"

# A results folder on a read-only disk; the manifest is on one too.
mount --bind "$work/whole" "$work/frozen" && mount -o remount,ro,bind "$work/frozen"
"$program" status "$work/m.toml" --repeats 1 --results "$work/frozen" | grep -q '1 of 1 runs done' || fail "status of a read-only folder"
"$program" run "$work/m.toml" --repeats 2 --no-report --results "$work/frozen" >"$work/out" 2>&1 && fail "a run into a read-only folder"
[ "$(wc -l <"$work/out")" -eq 1 ] || fail "not one line: $(cat "$work/out")"
grep -q 'frozen' "$work/out" || fail "the place is not named: $(cat "$work/out")"
echo "full_disk: read-only results: $(cat "$work/out")"
umount "$work/frozen"
mkdir "$work/manifests"
cp "$work/m.toml" "$work/manifests/"
for folder in workloads clusters rules; do ln -s "$PWD/experiments/$folder" "$work/manifests/$folder"; done
mount --bind "$work/manifests" "$work/frozen" && mount -o remount,ro,bind "$work/frozen"
"$program" run "$work/frozen/m.toml" --repeats 1 --no-report --results "$work/again" >/dev/null || fail "a read-only manifest"
cmp "$work/whole/m/vanilla-bo/1/trials.csv" "$work/again/m/vanilla-bo/1/trials.csv" || fail "read-only manifest: other records"
echo "full_disk: a read-only manifest is enough"
