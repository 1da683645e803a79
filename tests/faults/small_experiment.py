"""The experiment whose runs the tests of this folder disturb."""


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
