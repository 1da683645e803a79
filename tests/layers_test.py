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
    "plots": ["trials", "common"],
    "harness": ["methods", "plots", "surrogates", "trials", "common"],
    "jobs": ["harness", "methods", "plots", "surrogates", "trials", "common"],
    "studies": ["harness", "methods", "plots", "surrogates", "trials", "common"],
    "cli": ["jobs", "studies", "harness", "methods", "plots", "surrogates", "trials", "common"],
    "trainer": ["trials", "common"],
    "benchmarks": ["studies", "harness", "methods", "plots", "surrogates", "trials", "common"],
}

# A prior that shares code with the ground truth it predicts would flatter
# every method that uses it; a method that sees a backend could peek.
BACKENDS = re.compile(r"trials/(simulator/|wrappers/|tables/replay|programs/(command_(runner|options)|containment/))")
MUST_NOT_SEE_BACKENDS = {"surrogates", "methods", "plots"}

# The trainer is a program of its own, on the vocabulary of trials/.
TRAINER = "trainer/"
TRAINER_MAY_INCLUDE = re.compile(r"common/|trainer/|trials/[a-z_]+\.h")

# Planners and their models stay apart from the methods of the paper.
PLANNERS = "methods/planners/"
MAY_INCLUDE_PLANNERS = (PLANNERS, "studies/planners/", "harness/registry.cc")

# Concrete types, and the only files of harness/ and cli/ that may refer to
# them. harness/testbeds/predictions.cc predicts by simulation, and problem_parts.cc makes
# the system for it. The other files of testbeds/ are those that testbed.cc lists.
# harness/testbeds/noise.* wraps any of them, and cli/contain.cc is the program that the
# command backend starts on each rank.
CONCRETE = [
    ({"harness/registry.cc"}, re.compile(r"methods/(?!oppa/families)[a-z_]+/")),
    (
        {
            "harness/testbeds/calibration.cc",
            "harness/testbeds/calibration.h",
            "harness/testbeds/noise.cc",
            "harness/testbeds/noise.h",
            "harness/testbeds/predictions.cc",
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


VIRTUAL = re.compile(r"^(?:class|struct) (\w+)|^ +(?:\[\[nodiscard\]\] )?virtual [^;]*= 0;", re.MULTILINE)


def circle(includes: dict[str, set[str]]) -> list[str]:
    """Folders that include each other, in order; empty if there are none."""
    done: set[str] = set()

    def visit(folder: str, path: list[str]) -> list[str]:
        if folder in path:
            return path[path.index(folder) :] + [folder]
        if folder not in done:
            for other in sorted(includes.get(folder, ())):
                if found := visit(other, path + [folder]):
                    return found
            done.add(folder)
        return []

    for start in sorted(includes):
        if found := visit(start, []):
            return found
    return []


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
    # Between the folders of a layer. A folder may include the files of those
    # around it, which are its interface, and they may include the folder.
    includes: dict[str, set[str]] = {}
    virtual: dict[str, set[str]] = {}
    for layer, below in LAYERS.items():
        allowed = {layer, *below}
        for path in sorted((root / layer).rglob("*")):
            if path.suffix not in {".h", ".cc", ".cu", ".cuh"}:
                continue
            files += 1
            where = path.relative_to(root)
            text = path.read_text()
            for name in interfaces(text) if "tests" not in where.parts else ():
                virtual.setdefault(name, set()).add(str(where))
            for number, line in enumerate(text.splitlines(), 1):
                match = re.match(r'#include "(([a-z_]+)/[^"]+)"', line)
                if not match:
                    continue
                header, folder = match.groups()
                place = f"{where}:{number}"
                here, there = str(where.parent), str(pathlib.Path(header).parent)
                if folder == layer and not f"{here}/".startswith(f"{there}/") and not f"{there}/".startswith(f"{here}/"):
                    includes.setdefault(here, set()).add(there)
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
    if folders := circle(includes):
        errors.append(f"these folders include each other: {' -> '.join(folders)}")
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
