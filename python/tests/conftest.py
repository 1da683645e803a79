"""A small job whose step times are a function of the configuration, and its manifest."""
import json
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(Path(__file__).parent)]
os.environ.setdefault("OPPA", str(ROOT / "build/release/oppa"))

MANIFEST = f"""
[experiment]
name = "job"
methods = ["oppa"]
seed = 3

[backend]
type = "command"
program = ["./job.py"]

[workload]
model = "{ROOT}/experiments/workloads/qwen2-1.5b.json"
batch_size = 64
sequence_length = 128

[cluster]
file = "{ROOT}/experiments/clusters/a5000-8.toml"

[space]
rule_sets = ["{ROOT}/experiments/rules/colossalai.rules"]
dp_bucket_mb = [16]
zero_bucket_mb = [16]
microbatches = [1, 2, 4, 8]
model_chunks = [1]

[budget]
trials = 9
q_max = 6
charge_thinking = false
"""


@pytest.fixture
def manifest(tmp_path):
    """The manifest of a search with the program job.py."""
    job = (Path(__file__).parent / "job.py").read_text()
    program = tmp_path / "job.py"
    program.write_text(f"#!{sys.executable}\n{job}")
    program.chmod(0o755)
    path = tmp_path / "job.toml"
    path.write_text(MANIFEST)
    return path


def pytest_configure(config):
    config.addinivalue_line("markers", "wrong_requests: requests that do not follow the schema")


@pytest.fixture(autouse=True)
def serve_follows_its_schema(monkeypatch, request):
    """Every request and every answer of every test."""
    import jsonschema

    import oppa._program as program
    schema = json.loads((ROOT / "docs/schemas/serve.json").read_text())
    checks = {name: jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]})
              for name in ("request", "answer")}
    loads, dumps = program.json.loads, program.json.dumps

    class CheckedJson:
        @staticmethod
        def loads(text):
            value = loads(text)
            if isinstance(value, dict):  # and no output of another command
                checks["answer"].validate(value)
            return value

        @staticmethod
        def dumps(value, **options):
            text = dumps(value, **options)
            if "wrong_requests" not in request.keywords:
                checks["request"].validate(loads(text))
            return text

    monkeypatch.setattr(program, "json", CheckedJson)
