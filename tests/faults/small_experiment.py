"""The experiment whose runs the tests of this folder disturb, and how they do it."""
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ("trials.csv", "steps.csv", "fits.csv")


class Lost(Exception):
    """What must not happen."""


def acknowledged(run_folder):
    """Rows of thinking.csv, whose times never repeat, of the trials that are on record."""
    def rows(name):
        file = run_folder / name
        text = file.read_bytes() if file.exists() else b""
        return text.rpartition(b"\n")[0].split(b"\n")[2:]
    return rows("thinking.csv")[:len(rows("trials.csv"))]


def compile_shim(name, folder):
    """The library that is preloaded before the C library."""
    library = folder / f"{name}.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library,
                    ROOT / f"tests/faults/{name}.c", "-ldl"], check=True)
    return library


def copy_experiments(folder):
    """The files that manifests refer to."""
    for name in ("workloads", "clusters", "rules", "hardware", "frameworks", "gpus", "noise"):
        shutil.copytree(ROOT / "experiments" / name, folder / name)


def manifest_text(method, trials, q_max, experiments=".", rule_sets=("colossalai",), more=""):
    """`experiments`: the folder of workloads, clusters and rules; `more`: further tables."""
    quoted = ", ".join(f'"{name}"' for name in rule_sets)
    return f"""
[experiment]
name = "m"
methods = ["{method}"]
repeats = 1
[backend]
type = "simulator"
[workload]
model = "{experiments}/workloads/qwen2-1.5b.json"
batch_size = 64
sequence_length = 1024
[cluster]
file = "{experiments}/clusters/a5000-8.toml"
[space]
rule_sets = [{quoted}]
dp_bucket_mb = [16]
zero_bucket_mb = [16]
[budget]
trials = {trials}
q_max = {q_max}
{more}"""
