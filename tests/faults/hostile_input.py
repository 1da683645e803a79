#!/usr/bin/env python3
"""Gives oppa manifests, models, clusters, rules, tables and words that are extreme or hostile.

    tests/faults/hostile_input.py PROGRAM [--only TEXT]

For each, `oppa space` and `oppa run` end within 40 s and 2 GB, with exit code 0, 1 or 2 and, unless
it is 0, one line of at most 3,000 bytes without control characters. They write nothing outside of
the results folder.
"""
import argparse
import collections
import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from exhaustive import MANIFEST
from small_experiment import ROOT, copy_experiments

LIMIT_S = 40
NUMBERS = ("0", "-1", "nan", "inf", "-inf", "1e308", "5e-324", "2147483647", "2147483648",
           "9223372036854775807", "99999999999999999999", "0x7fffffff", "1e9", "\"1\"", "[]", "{}")
CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")


def manifests():
    for key, old in (("q_max", "q_max = 3"), ("trials", "trials = 4"),
                     ("batch_size", "batch_size = 64"), ("repeats", "repeats = 1"),
                     ("sequence_length", "sequence_length = 1024"),
                     ("dp_bucket_mb", "dp_bucket_mb = [16]")):
        for number in NUMBERS:
            yield f"{key} = {number}", {"m.toml": MANIFEST.replace(old, f"{key} = {number}")}
    for number in NUMBERS:
        yield f"noise.jitter = {number}", {"m.toml": MANIFEST + f"[noise]\njitter = {number}\n"}
    for name in ("../x", "/abs", "a/b", "..", "", "a\\u0000b", "\\u001b[31m", "x" * 5000, "summary.csv"):
        yield f"name {name[:20]}", {"m.toml": MANIFEST.replace('"m"', f'"{name}"')}
        yield f"method {name[:20]}", {"m.toml": MANIFEST + f'[method."{name}"]\nbase = "random"\n'}
    deep = "[" * 50000
    for label, text in (("BOM", "\ufeff" + MANIFEST), ("CR", MANIFEST.replace("\n", "\r")),
                        ("NUL", MANIFEST.replace("m", "\0")), ("deep", "a = " + deep),
                        ("deep dotted", ".".join("a" * 50000) + " = 1"),
                        ("deep table", f"[{'.'.join('a' * 50000)}]"),
                        ("long line", MANIFEST + "# " + "x" * 20_000_000),
                        ("20000 methods", MANIFEST + "".join(
                            f"[method.m{i}]\nbase = 'random'\n" for i in range(20000))),
                        ("huge space", MANIFEST.replace("zero_bucket_mb = [16]", f"zero_bucket_mb = "
                                                        f"{list(range(1, 20000))}"))):
        yield f"manifest {label}", {"m.toml": text}
    yield "manifest bytes", {"m.toml": bytes(range(256)) * 10}
    yield "manifest UTF-16", {"m.toml": MANIFEST.encode("utf-16")}
    yield "manifest empty", {"m.toml": ""}


def models():
    model = json.loads((ROOT / "experiments/workloads/qwen2-1.5b.json").read_text())
    path = "workloads/qwen2-1.5b.json"
    for key in ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size"):
        for value in (0, -1, 2**31 - 1, 2**63, 1e300, 0.5, "1", None, [], {}, True):
            if key in model:
                yield f"{key} = {value!r}", {path: json.dumps({**model, key: value})}
    text = json.dumps(model)
    for label, content in (("deep array", '{"model_type": ' + "[" * 100000), ("null", "null"),
                           ("deep object", '{"a":' * 100000), ("empty", ""), ("cut", text[:50]),
                           ("NUL", text.replace("e", "\0")), ("twice", text + text),
                           ("bytes", bytes(range(256)) * 20), ("UTF-16", text.encode("utf-16"))):
        yield f"model {label}", {path: content}


def clusters():
    path = "clusters/a5000-8.toml"
    text = (ROOT / "experiments" / path).read_text()
    for key in sorted(set(re.findall(r"^(\w+) = [\d.]+", text, re.MULTILINE))):
        for number in ("0", "-1", "nan", "inf", "5e-324", "1e300", "1000000000"):
            yield f"cluster {key} = {number}", \
                {path: re.sub(rf"^{key} = [\d.e]+", f"{key} = {number}", text, flags=re.MULTILINE)}


def rules():
    for label, rule in (("parentheses", "(" * 100000 + "dp" + ")" * 100000),
                        ("terms", " + ".join(["dp"] * 100000) + " > 1"), ("unary", "!" * 100000),
                        ("minus", "-" * 100000 + "dp > 1"), ("assignment", "dp = tp = pp = 1"),
                        ("comma", "dp, tp"), ("string", '"dp" == "tp"'), ("zero", "dp / 0 > 1"),
                        ("remainder", "dp % 0 == 1"), ("huge", "1e999 > dp"), ("NUL", "dp\0 > 1"),
                        ("ESC", "\x1b[31m > 1"), ("function", "system(dp)"), ("empty", "   ")):
        yield f"rule {label}", {"rules/colossalai.rules": rule + "\n"}
        quoted = json.dumps(rule)
        yield f"manifest rule {label}", \
            {"m.toml": MANIFEST.replace("[budget]", f"rules = [{quoted}]\n[budget]")}


def tables():
    manifest = re.sub(r"\[backend\]\ntype = \"simulator\"\n",
                      '[backend]\ntype = "replay"\ntable = "t.csv"\nscenarios = "s"\n', MANIFEST)
    manifest = re.sub(r"rule_sets.*\n|dp_bucket.*\n|zero_bucket.*\n", "", manifest)
    head = "scenario,gpus,dp,tp,pp,status,step_time_s\n"
    rows = [f"s,8,{dp},{8 // dp},1,ok," for dp in (8, 4, 2, 1)]
    for value in ("0.5", "nan", "inf", "0", "-1", "1e308", "5e-324", "1e-300", "", "x", "=1+1",
                  "\x1b[31m", "\0", "9" * 100000, '"0.5', "0,5"):
        yield f"table step time {value[:12]!r}", \
            {"m.toml": manifest, "t.csv": head + "\n".join(row + value for row in rows) + "\n"}
    for label, text in (("empty", ""), ("header", head), ("BOM CRLF", "\ufeff" + head.replace(
            "\n", "\r\n") + "s,8,8,1,1,ok,1\r\n"), ("wide row", head + "," * 1_000_000),
                        ("formula", head.replace("scenario", "=cmd|' /C calc'!A0")),
                        ("bytes", bytes(range(256)) * 100)):
        yield f"table {label}", {"m.toml": manifest, "t.csv": text}


def words():
    for word in ("", "nan", "-1", "x" * 100000, "\x1b[31m", "\udcff\udcfe", "../../etc", "%s%n"):
        for option in ("--methods", "--repeats", "--set", "--problem", "--jobs"):
            yield f"{option} {word[:12]!r}", {"": [option, word]}


class Place:
    def __init__(self, program, work):
        self.program, self.work = program, work

    def check(self, files):
        folder = self.work / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        copy_experiments(folder)
        (folder / "m.toml").write_text(MANIFEST)
        for name, content in files.items():
            if name:
                (folder / name).write_bytes(content if isinstance(content, bytes)
                                            else content.encode())
        before = {p for p in self.work.rglob("*")}
        more = files.get("", [])
        for verb in (["space", "m.toml"], ["run", "m.toml", "--results", "r", "--no-report"]):
            if more and verb[0] == "space":
                continue
            self.execute(folder, [*verb, *more])
        outside = {p for p in self.work.rglob("*") if folder / "r" not in p.parents} - before
        if outside - {folder / "r"}:
            raise AssertionError(f"wrote {sorted(map(str, outside))[:3]}")

    def execute(self, folder, verb):
        ended = subprocess.run([self.program, *verb], cwd=folder, capture_output=True,
                               stdin=subprocess.DEVNULL, timeout=LIMIT_S, preexec_fn=lambda:
                               resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)))
        said = ended.stderr or ended.stdout
        if ended.returncode not in (0, 1, 2):
            raise AssertionError(f"{verb[0]}: exit code {ended.returncode}: {said[-300:]}")
        if ended.returncode and (not said.strip() or len(ended.stderr) > 3000 or
                                 (verb[0] == "space" and ended.stderr.count(b"\n") != 1)):
            raise AssertionError(f"{verb[0]}: a message of {len(said)} bytes: {said[:300]}")
        if CONTROL.search(ended.stdout + ended.stderr):
            raise AssertionError(f"{verb[0]}: control characters: {said[:300]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    counts = collections.Counter()
    lost = 0
    with tempfile.TemporaryDirectory(prefix="oppa-hostile-") as work:
        place = Place(arguments.program.resolve(), Path(work))
        for group in (manifests, models, clusters, rules, tables, words):
            for label, files in group():
                if arguments.only not in f"{group.__name__}: {label}":
                    continue
                counts[group.__name__] += 1
                try:
                    place.check(files)
                except (AssertionError, subprocess.TimeoutExpired) as error:
                    lost += 1
                    print(f"hostile_input: {group.__name__}: {label}: {str(error)[:600]}",
                          file=sys.stderr)
    print("hostile_input:", ", ".join(f"{count} {group}" for group, count in counts.items()))
    if lost:
        sys.exit(f"hostile_input: {lost} of {sum(counts.values())} cases were not survived")


main()
