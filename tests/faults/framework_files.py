#!/usr/bin/env python3
"""Gives `oppa adapters` configuration files of frameworks in many styles, some of them damaged.

    tests/faults/framework_files.py PROGRAM [--files 300] [--seed 1]

Each file is YAML, TOML or JSON with comments: in flow and block style, with anchors, merge keys,
inline tables, dotted keys, texts and lists over lines, CRLF, byte order marks. The program refuses
the file, or writes one in which Python's parsers find the values asked for and no other change.
"""
import argparse
import collections
import json
import math
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import tomllib

    import yaml
except ImportError as error:
    print(f"not run: {error}")
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]
ADAPTER = """[file]
format = "{}"
option = ["--config"]
[[settings]]
key = "par.tp"
value = "$tp"
[[settings]]
key = "par.opt.use"
bool = "$tp = 2"
[[settings]]
key = "mode"
text = "full"
[[settings]]
key = "par.gone"
value = "1"
when = "$tp = 1"
"""
WANTED = {"par.tp": 2, "par.opt.use": True, "mode": "full", "par.gone": None}
TEXTS = ("full", "a b", "x # y", "tp: 7", "no", "it's", "[1]", "", "1e5", "http://h/p", "é")


class Writer:
    """A document in one of the formats; what is random comes from `random`."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.format = self.random.choice(("yaml", "toml", "json"))

    def chance(self, probability):
        return self.random.random() < probability

    def table(self, depth, names):
        pick = self.random
        table = {}
        for name in pick.sample(names, pick.randint(1, len(names))):
            if depth > 0 and name in ("opt", "extra"):
                table[name] = self.table(depth - 1, ("use", "tp", "kind"))
            else:
                values = [pick.randint(0, 99), pick.choice(TEXTS), self.chance(0.5), 2.5]
                if name in ("pp", "kind") or self.chance(0.05):
                    values += [[[1, 2], [3]], ["a", "b"]]
                table[name] = pick.choice(values)
        return table

    def document(self):
        table = {"mode": "none", "lr": 0.1, "note": self.random.choice(TEXTS),
                 "par": self.table(1, ("tp", "pp", "opt", "gone", "kind")),
                 "other": self.table(1, ("tp", "use", "extra"))}
        names = list(table)
        self.random.shuffle(names)
        if self.chance(0.3):
            names.remove(self.random.choice(names))
        return {name: table[name] for name in names}

    def text(self):
        text = getattr(self, self.format)(self.document())
        if self.chance(0.2):
            text = text.replace("\n", "\r\n")
        return ("\ufeff" if self.chance(0.1) else "") + text

    def comment(self, sign="#"):
        return f"  {sign} tp = 9, tp: 8 \"" if self.chance(0.15) else ""

    # YAML
    def yaml(self, document):
        self.anchor = None
        lines = ["---"] if self.chance(0.2) else []
        if self.chance(0.3):
            lines += ["base: &base {kind: k, tp: 5}" if self.chance(0.5) else "base: &base\n  kind: k\n  tp: 5"]
            self.anchor = "base"
        self.yaml_lines(document, 0, lines)
        return "\n".join(lines) + ("\n" if self.chance(0.9) else "")

    def yaml_flow(self, value):
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key}: {self.yaml_flow(each)}" for key, each in value.items()) + "}"
        return json.dumps(value, ensure_ascii=False)

    def yaml_scalar(self, value, indent):
        if isinstance(value, str) and self.chance(0.4) and value:
            if self.chance(0.5):
                return f"{self.random.choice('|>')}\n{indent}    {value}\n{indent}    tp: 7 # old"
            return f"\"{value}\n{indent}    tp: 7 # old\""
        if isinstance(value, str) and self.chance(0.3):
            return "'" + value.replace("'", "''") + "'"
        if isinstance(value, int) and self.chance(0.1):
            return f"&n{self.random.randint(0, 10 ** 6)} {json.dumps(value)}"
        return json.dumps(value, ensure_ascii=False)

    def yaml_lines(self, table, depth, lines):
        indent = "  " * depth
        if depth and self.anchor and self.chance(0.4):
            lines.append(f"{indent}<<: *{self.anchor}")
        for key, value in table.items():
            key = f"'{key}'" if self.chance(0.1) else key
            if isinstance(value, dict) and self.anchor and self.chance(0.1):
                lines.append(f"{indent}{key}: *{self.anchor}")
            elif isinstance(value, dict) and value and self.chance(0.7):
                lines.append(f"{indent}{key}:{self.comment()}")
                self.yaml_lines(value, depth + 1, lines)
            elif isinstance(value, dict) and self.chance(0.2):
                lines.append(f"{indent}{key}:{self.comment()}")
            elif isinstance(value, list) and self.chance(0.6):
                lines.append(f"{indent}{key}:")
                lines.extend(f"{indent}- {json.dumps(each)}" for each in value)
            elif isinstance(value, (dict, list)):
                lines.append(f"{indent}{key}: {self.yaml_flow(value)}{self.comment()}")
            else:
                scalar = self.yaml_scalar(value, indent)
                lines.append(f"{indent}{key}: {scalar}" + ("" if "\n" in scalar else self.comment()))
            if self.chance(0.1):
                lines.append("# tp: 3")

    # TOML
    def toml(self, document):
        lines = []
        tables = {key: value for key, value in document.items() if isinstance(value, dict)}
        self.toml_lines({key: value for key, value in document.items() if key not in tables}, "", lines)
        headers = []
        for key, value in tables.items():
            style = self.random.choice(("header", "header", "inline", "dotted"))
            if style == "header":
                self.toml_header(key, value, headers)
            elif style == "inline":
                lines.append(f"{self.toml_key(key)} = {self.toml_value(value)}{self.comment()}")
            else:
                self.toml_lines(value, key + ".", lines)
        return "\n".join(lines + headers) + "\n"

    def toml_key(self, key):
        return f'"{key}"' if self.chance(0.15) else key

    def toml_header(self, path, table, lines):
        quoted = " . ".join(self.toml_key(key) for key in path.split("."))
        lines.append(f"[ {quoted} ]{self.comment()}" if self.chance(0.3) else f"[{path}]")
        inner = {key: value for key, value in table.items() if isinstance(value, dict) and self.chance(0.5)}
        self.toml_lines({key: value for key, value in table.items() if key not in inner}, "", lines)
        for key, value in inner.items():
            self.toml_header(f"{path}.{key}", value, lines)

    def toml_value(self, value):
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key} = {self.toml_value(each)}" for key, each in value.items()) + "}"
        return json.dumps(value, ensure_ascii=False)

    def toml_lines(self, table, prefix, lines):
        for key, value in table.items():
            name = prefix + self.toml_key(key)
            if isinstance(value, list) and self.chance(0.5):
                lines.append(f"{name} = [\n" + ",\n".join(json.dumps(each) for each in value) + ",\n]")
            elif isinstance(value, str) and "'" not in value and self.chance(0.3):
                lines.append(f"{name} = '''\n[par]\ntp = 7\n{value}'''")
            else:
                lines.append(f"{name} = {self.toml_value(value)}{self.comment()}")
            if self.chance(0.1):
                lines.append("# tp = 3")

    # JSON
    def json(self, document):
        lines = []
        for line in json.dumps(document, indent=2, ensure_ascii=False).split("\n"):
            sign = self.random.choice(("//", "#"))
            lines.append(line + (" /* \"tp\": 1,\n } */" if self.chance(0.05) else self.comment(sign)))
        text = "\n".join(lines)
        return re.sub(r"\n(\s*[}\]])", r",\n\1", text, count=1) if self.chance(0.1) else text

    def damage(self, text):
        """The text with one or two lines or characters less, twice or swapped."""
        for _ in range(self.random.randint(1, 2)):
            parts = text.splitlines(keepends=True) if self.chance(0.5) else list(text)
            if not parts:
                return text
            at = self.random.randrange(len(parts))
            kind = self.random.choice(("drop", "twice", "swap", "insert"))
            if kind == "drop":
                parts.pop(at)
            elif kind == "twice":
                parts.insert(at, parts[at])
            elif kind == "swap":
                other = self.random.randrange(len(parts))
                parts[at], parts[other] = parts[other], parts[at]
            else:
                parts.insert(at, self.random.choice("[]{}:=#\"'\t &*|-,.\n"))
            text = "".join(parts)
        return text


def without_comments(text):
    """JSON of Hjson with comments and commas before a bracket."""
    token = re.compile(r'("(?:[^"\\]|\\.)*")|(#[^\n]*|//[^\n]*|/\*.*?\*/)', re.S)
    text = token.sub(lambda match: match[1] or " ", text)
    return re.sub(r'("(?:[^"\\]|\\.)*")|,(\s*[}\]])', lambda match: match[1] or match[2], text)


def parse(kind, text):
    """The document, or None if Python reads none."""
    text = text.removeprefix("\ufeff")
    try:
        if kind == "yaml":
            return yaml.safe_load(text) or {}
        return tomllib.loads(text) if kind == "toml" else json.loads(without_comments(text) or "{}")
    except (yaml.YAMLError, ValueError, RecursionError, TypeError):
        return None


def leaves(value, path="", into=None):
    into = {} if into is None else into
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        leaves(each, f"{path}.{key}" if path else str(key), into)
    if not items and path:
        into[path] = repr(value) if not (isinstance(value, float) and math.isnan(value)) else "nan"
    return into


def wrong(kind, before, after_text):
    """What is wrong with the file written; '' if nothing is."""
    after = parse(kind, after_text)
    if after is None:
        return "the file written is not readable"
    expected, found = leaves(before), leaves(after)
    for path, value in WANTED.items():
        if found.get(path) != (None if value is None else repr(value)):
            return f"{path} is {found.get(path)}, not {value!r}"
        parts = path.split(".")
        for i in range(len(parts)):  # a table on the way may be new
            expected.pop(".".join(parts[:i + 1]), None)
            found.pop(".".join(parts[:i + 1]), None)
    changed = {path for path in expected | found if expected.get(path) != found.get(path)
               and not path.startswith("par.gone.")}
    return f"{sorted(changed)[0]} changed too" if changed else ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=Path)
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    counts = collections.Counter()
    failures = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in ("yaml", "toml", "json"):
            (folder / f"{kind}.toml").write_text(ADAPTER.format(kind))
        for number in range(arguments.files):
            writer = Writer(f"{arguments.seed} {number}")
            kind = writer.format
            text = writer.text()
            damaged = writer.chance(0.5)
            text = writer.damage(text) if damaged else text
            file = folder / f"job.{kind}"
            file.write_bytes(text.encode())
            before = parse(kind, text)
            result = subprocess.run(
                [arguments.program.resolve(), "adapters", f"./{kind}.toml", "--json", "--pc", "dp=4,tp=2", "--model",
                 ROOT / "experiments/workloads/qwen2-1.5b.json", "--batch", "64", "--seq", "1024", "--", "run", "--config",
                 file.name], cwd=folder, capture_output=True, text=True, timeout=20)
            problem = ""
            if result.returncode == 0:
                written = next(iter(json.loads(result.stdout)["files"].values()))
                problem = "it is not readable" if before is None else wrong(kind, before, written)
            elif result.returncode not in (1, 2) or file.name not in result.stderr:
                problem = f"exit code {result.returncode}: {result.stderr.strip()[:200]}"
            outcome = "wrong" if problem else "edited" if result.returncode == 0 else "refused"
            counts[f"{'damaged' if damaged else 'whole'} {kind} {outcome}"] += 1
            if problem:
                failures.append(f"--seed {arguments.seed}, file {number} ({kind}): {problem}\n{text}")
            elif outcome == "refused" and not damaged:
                counts[result.stderr.strip().split(": ", 2)[-1][:110]] += 1
    for what, count in sorted(counts.items()):
        print(f"{count:5} {what}")
    print("\n".join(failures[:5]))
    print(f"{arguments.files} files, {len(failures)} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
