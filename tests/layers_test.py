"""Checks that each folder includes only the folders under it.

This is the architecture of docs/architecture.md, written so that it can fail.
"""

import pathlib
import re
import sys

MAY_INCLUDE = {
    "trials": {"trials"},
    "surrogates": {"surrogates", "trials"},
    "methods": {"methods", "surrogates", "trials"},
    "plots": {"plots", "trials"},
    "harness": {"harness", "methods", "plots", "surrogates", "trials"},
    # No layer: programs that use them all, and that none uses.
    "studies": {"studies", "harness", "methods", "plots", "surrogates", "trials"},
}

# A prior that shares code with the ground truth it predicts would flatter
# every method that uses it; a method that sees a backend could peek.
BACKENDS = ("trials/simulator/", "trials/replay/", "trials/wrappers/")
MUST_NOT_SEE_BACKENDS = {"surrogates", "methods", "plots"}

# The places that name concrete methods and backends.
CONCRETE = {
    "harness/registry.cc": re.compile(r"methods/(sampling|guided|oppa|planners)/"),
    "harness/backends.cc": re.compile(r"trials/(replay|wrappers)/"),
}


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    errors = []
    files = 0
    for layer, allowed in MAY_INCLUDE.items():
        for path in sorted((root / layer).rglob("*")):
            if path.suffix not in {".h", ".cc", ".cu", ".cuh"}:
                continue
            files += 1
            where = path.relative_to(root)
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = re.match(r'#include "(([a-z_]+)/[^"]+)"', line)
                if not match:
                    continue
                header, folder = match.groups()
                place = f"{where}:{number}"
                if folder not in allowed:
                    errors.append(f"{place}: {layer}/ may not include {header}")
                if layer in MUST_NOT_SEE_BACKENDS and header.startswith(BACKENDS):
                    errors.append(f"{place}: {layer}/ may not see a backend ({header})")
                for only, concrete in CONCRETE.items():
                    if layer == "harness" and concrete.match(header) and str(where) != only:
                        errors.append(f"{place}: only {only} may name {header}")
    if files == 0:
        errors.append("no source files found")
    print("\n".join(errors) or f"layers: ok, {files} files")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
