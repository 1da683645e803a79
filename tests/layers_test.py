"""Checks that each folder includes only the folders under it.

This is the architecture of docs/architecture.md, written so that it can fail.
"""

import pathlib
import re
import sys

# Each layer and the layers that it may include in addition to itself.
LAYERS = {
    "common": [],
    "trials": ["common"],
    "surrogates": ["trials", "common"],
    "methods": ["surrogates", "trials", "common"],
    "planners": ["methods", "surrogates", "trials", "common"],
    "plots": ["trials", "common"],
    "harness": ["planners", "methods", "plots", "surrogates", "trials", "common"],
    "jobs": ["harness", "planners", "methods", "plots", "surrogates", "trials", "common"],
    "studies": ["harness", "planners", "methods", "plots", "surrogates", "trials", "common"],
    "cli": ["jobs", "studies", "harness", "planners", "methods", "plots", "surrogates", "trials", "common"],
    "trainer": ["trials", "common"],
    "benchmarks": ["jobs", "studies", "harness", "planners", "methods", "plots", "surrogates", "trials", "common"],
}

# A prior that shares code with the ground truth it predicts would flatter
# every method that uses it; a method that sees a backend could peek.
BACKENDS = re.compile(r"trials/(simulator/|wrappers/|tables/replay|containment/|programs/command_(runner|options))")
MUST_NOT_SEE_BACKENDS = {"surrogates", "methods", "planners", "plots"}

# The trainer is a program of its own, on the vocabulary of trials/.
TRAINER = "trainer/"
TRAINER_MAY_INCLUDE = re.compile(r"common/|trainer/|trials/[a-z_]+\.h")

# Planners and their models stay apart from the methods of the paper.
PLANNERS = "planners/"
MAY_INCLUDE_PLANNERS = (PLANNERS, "studies/planners/", "harness/registry.cc")

# Concrete types, and the only files of harness/ and cli/ that may refer to
# them. harness/predictions/ predicts by simulation, and testbeds/problem_parts.cc
# makes the system for it. The other files of testbeds/ are those that testbeds.cc lists.
# harness/testbeds/noise.* wraps any of them, and cli/contain.cc is the program that the
# command backend starts on each rank.
CONCRETE = [
    ({"harness/registry.cc"}, re.compile(r"(methods/(?!oppa/families)|planners/)[a-z_]+/")),
    (
        {
            "harness/predictions/alternatives.cc",
            "harness/predictions/alternatives.h",
            "harness/predictions/calibration.cc",
            "harness/predictions/calibration.h",
            "harness/predictions/earlier_jobs.cc",
            "harness/testbeds/noise.cc",
            "harness/testbeds/noise.h",
            "harness/predictions/predictions.cc",
            "harness/testbeds/problem_parts.cc",
            "harness/testbeds/program.cc",
            "harness/testbeds/program.h",
            "harness/testbeds/replayed.cc",
            "harness/testbeds/simulated.cc",
            "cli/contain.cc",
        },
        BACKENDS,
    ),
]


# What writes to a results folder does so through common/files.h, which follows no link out of it.
WRITES = re.compile(
    r"std::(?:basic_)?o?fstream\b|\b(?:fopen|freopen|mkdtemp|mkstemp|creat)\(|\bcreate_(?:director|\w*link)"
    r"|(?:\bfs|\bfilesystem|[\s(!=])::(?:rename|remove|remove_all|copy\w*|resize_file|permissions"
    r"|unlink|mkdir|rmdir|link|symlink|truncate|chmod|renameat|unlinkat|mkdirat|linkat)\("
    r'|::open(?:at)?\((?![^;]*"/dev/null")[^;]*O_(?:CREAT|TRUNC|WRONLY|RDWR)'
)
MAY_WRITE = ("common/files.cc", TRAINER, "benchmarks/")


VIRTUAL = re.compile(r"^(?:class|struct) (\w+)|^ +(?:\[\[nodiscard\]\] )?virtual [^;]*= 0;", re.MULTILINE)


def rooms(file: pathlib.PurePath, header: pathlib.PurePath) -> tuple[str, str] | None:
    """Where an include leads from and to, as seen from the innermost folder that holds both files: one of its
    subfolders, or one of its own files, a header together with its source. Nothing within a subfolder or a file."""
    depth = 0
    while file.parts[depth] == header.parts[depth] and depth < min(len(file.parts), len(header.parts)) - 1:
        depth += 1
    here, there = ("/".join(path.parts[: depth + 1]) for path in (file.with_suffix(""), header.with_suffix("")))
    return None if here == there else (here, there)


def circle(includes: dict[str, set[str]], folders: set[str]) -> list[str]:
    """A circle of includes through one of the folders, in order; empty if there is none. The files of one folder may
    refer to each other."""

    def path_to(goal: str, room: str, seen: set[str]) -> list[str]:
        for other in sorted(includes.get(room, ())):
            if other == goal:
                return [room, goal]
            if other not in seen:
                seen.add(other)
                if found := path_to(goal, other, seen):
                    return [room, *found]
        return []

    return next((found for folder in sorted(folders) if (found := path_to(folder, folder, set()))), [])


def interfaces(text: str) -> set[str]:
    """The classes of a file that have a pure virtual function."""
    found, current = set(), ""
    for match in VIRTUAL.finditer(text):
        if match[1]:
            current = match[1]
        else:
            found.add(current)
    return found


def documented(root: pathlib.Path) -> set[tuple[str, str]]:
    """The names and files of the table in docs/architecture.md."""
    text = (root / "docs/architecture.md").read_text()
    rows = re.findall(r"^\| (`[^|]*) \| (`[^|]*) \|", text.split("## Virtual interfaces")[1].split("\n## ")[0], re.MULTILINE)
    return {(name, file) for names, files in rows for name in re.findall(r"`(\w+)`", names) for file in [files.replace("`", "")]}


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    errors = []
    files = 0
    # Between the rooms of each folder: a subfolder may include the files around it, which are its interface, or these
    # files may include the subfolder, but not both.
    includes: dict[str, set[str]] = {}
    folders = {str(path.relative_to(root)) for layer in LAYERS for path in (root / layer).rglob("*") if path.is_dir()}
    virtual: dict[str, set[str]] = {}
    for layer, below in LAYERS.items():
        allowed = {layer, *below}
        for path in sorted((root / layer).rglob("*")):
            if path.suffix not in {".h", ".cc", ".cu", ".cuh"}:
                continue
            files += 1
            where = path.relative_to(root)
            text = path.read_text()
            if not str(where).startswith(MAY_WRITE):
                code = re.sub("//.*", "", text)
                errors += [
                    f"{where}: writes with {found[0].split('(')[0].strip()}: use common/files.h"
                    for found in WRITES.finditer(code)
                ]
            for name in interfaces(text) if "tests" not in where.parts else ():
                virtual.setdefault(name, set()).add(str(where))
            for number, line in enumerate(text.splitlines(), 1):
                match = re.match(r'#include "(([a-z_]+)/[^"]+)"', line)
                if not match:
                    continue
                header, folder = match.groups()
                place = f"{where}:{number}"
                if folder == layer and "tests" not in where.parts and (step := rooms(where, pathlib.PurePath(header))):
                    includes.setdefault(step[0], set()).add(step[1])
                if folder not in allowed and "tests" not in where.parts:
                    errors.append(f"{place}: {layer}/ must not include {header}")
                if str(where).startswith(TRAINER) and "tests" not in where.parts and not TRAINER_MAY_INCLUDE.match(header):
                    errors.append(f"{place}: the trainer must not include {header}")
                if header.startswith(TRAINER) and not str(where).startswith(TRAINER):
                    errors.append(f"{place}: only the trainer may include {header}")
                if header.startswith(PLANNERS) and not str(where).startswith(MAY_INCLUDE_PLANNERS):
                    errors.append(f"{place}: only planners, their studies and the registry may include {header}")
                if layer in MUST_NOT_SEE_BACKENDS and BACKENDS.match(header):
                    errors.append(f"{place}: {layer}/ must not include a backend ({header})")
                for only, concrete in CONCRETE:
                    if layer in {"harness", "cli"} and concrete.match(header) and str(where) not in only:
                        errors.append(f"{place}: only {' and '.join(sorted(only))} may name {header}")
    if found := circle(includes, folders):
        errors.append(f"these include each other: {' -> '.join(found)}")
    listed = documented(root)
    for name, places in sorted(virtual.items()):
        for place in sorted(places):
            if not any(n == name and place in f for n, f in listed):
                errors.append(f"{place}: docs/architecture.md does not list the interface {name}")
    for name, file in sorted(listed):
        if name not in virtual:
            errors.append(f"docs/architecture.md: {name} ({file}) has no pure virtual function")
    known = {path.parent.name for path in root.glob("*/*.cc")} - {"tests"}
    for folder in sorted(known - set(LAYERS)):
        errors.append(f"{folder}/: a source folder without an entry in LAYERS")
    if files == 0:
        errors.append("no source files found")
    print("\n".join(errors) or f"layers: ok, {files} files")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
