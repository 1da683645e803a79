"""Plans by Python, and the JSON of the program."""
import json
import sys

import jsonschema
import pytest

import oppa
from conftest import ROOT

MODEL = {"layers": 32, "hidden": 4096, "heads": 32, "ffn": 14336, "vocab": 128256}
JOB = {"gpus": "1x8", "gpu": "h100", "batch": 64, "seq": 2048}


def validate(name, value):
    jsonschema.Draft202012Validator(json.loads((ROOT / f"docs/schemas/{name}.json").read_text())).validate(value)


def test_the_best_layout_is_the_fastest_that_fits():
    plan = oppa.plan(MODEL, **JOB, framework=["megatron-lm", "torchtitan"])
    validate("plan", plan.raw)
    assert {layout.framework for layout in plan.layouts} == {"megatron-core", "fsdp2"}
    best = plan.best
    assert best.tokens_per_second_per_gpu == max(one.tokens_per_second_per_gpu for one in plan.layouts)
    assert best.config["dp"] * best.config["tp"] * best.config["pp"] == 8
    assert "torchrun" in best.command and 0 < best.mfu < 1
    assert best.memory.peak_bytes < best.memory.capacity_bytes
    assert (best.band is None) == ("bands" not in plan.raw[0])
    for band, value in [] if best.band is None else [(best.band, best.step_time_s), (best.memory.band, best.memory.peak_bytes)]:
        assert band[0] < value < band[1]


def test_is_a_table():
    pandas = pytest.importorskip("pandas")
    plan = oppa.plan(MODEL, **JOB, framework=["megatron-lm", "torchtitan"], layouts=3, headroom=5, rule=["$tp > 4"])
    rows = str(plan).splitlines()
    assert len(rows) == 1 + len(plan.layouts) and all(one.name in row for one, row in zip(plan.layouts, rows[1:]))
    assert plan._repr_html_().count("<tr>") == len(rows)
    table = plan.to_dataframe()
    assert isinstance(table, pandas.DataFrame) and list(table["step_time_s"]) == [one.step_time_s for one in plan.layouts]
    for one in plan.layouts:
        assert sum(one.shares.values()) == pytest.approx(1.0, abs=0.02)
        assert one.microbatches * one.micro_batch_size * one.config["dp"] == JOB["batch"]
    empty = oppa.plan(MODEL, **{**JOB, "gpus": "1x1"}, framework="megatron-lm")
    assert "out of memory" in str(empty) and "out of memory" in empty._repr_html_()


@pytest.mark.parametrize("wrong, message", [({"precision": "fp9"}, "precision"), ({"batch": 1.5}, "batch"), ({"gpus": True}, "gpus True"), ({"layouts": -1}, "layouts"), ({"framework": 5}, "'5'"), ({"framework": ("fsdp2", 5)}, "'5'"),
                                            ({"price": -5}, "price"), ({"gpus": "8..16"}, "one size"),
                                            ({"save_calibration": "x"}, "calibrate"), ({"cluster": "none"}, "cluster")])
def test_errors_speak_of_arguments(wrong, message):
    with pytest.raises(oppa.OppaError, match=message) as error:
        oppa.plan(MODEL, **{**JOB, **wrong})
    assert "--" not in str(error.value)


def test_says_what_no_measurement_was_compared_with():
    plan = oppa.plan(MODEL, **JOB, framework="torchtitan", training=["lora_rank=16", "frozen_bits=4"])
    validate("plan", plan.raw)
    assert any("not validated: LoRA of rank 16" in note for note in plan.notes)
    assert "loss in 8 chunks" in plan.raw[0]["training"]
    assert not any("not validated" in note for note in oppa.plan(MODEL, **JOB, framework="megatron-lm").notes)


def test_says_why_a_layout_is_not_the_best():
    plan = oppa.plan(MODEL, **JOB, framework="megatron-lm")
    validate("why", json.loads(oppa._program.Program().run([*plan.words, "--why", "dp=8,tp=1", "--json"])))
    assert "slower than" in plan.why("dp=8,tp=1")


def test_names_the_reason_where_nothing_fits():
    plan = oppa.plan(MODEL, **{**JOB, "gpus": "1x1"}, framework="megatron-lm")
    assert plan.layouts == []
    with pytest.raises(oppa.OppaError, match="out of memory"):
        plan.best
    with pytest.raises(oppa.OppaError, match="h10"):
        oppa.plan(MODEL, **{**JOB, "gpu": "h10"})


def test_tune_writes_the_command_to_use(manifest, tmp_path):
    output = oppa._program.Program().run(["tune", str(manifest), "--finalists", "1"])
    assert "Use this command line" in output
    best = json.loads((tmp_path / "oppa-results/job/best.json").read_text())
    validate("best", best)
    assert best["command"] == [str(tmp_path / "job.py")]
    study = oppa.create_study(manifest, load_if_exists=True)  # the same search, in the same folder
    assert study.folder == tmp_path / "oppa-results/job" and len(study.trials) == 9


def test_a_wrong_request_of_an_agent_is_answered_by_an_error(monkeypatch, tmp_path):
    from io import BytesIO, StringIO, TextIOWrapper

    from oppa.mcp import main

    lines = ["{", "[]", "3", "null", '{"id": 1}', '{"id": 2, "method": "tools/call"}', "[" * 100000,
             '{"id": 3, "method": "tools/call", "params": 7}', '{"id": 4, "method": "tools/call", "params": {"name": "ask"}}',
             '{"id": 5, "method": "tools/call", "params": {"name": "plan", "arguments": {"write": "' + str(tmp_path) + '"}}}']
    answers = StringIO()
    sent = [line.encode() for line in lines] + [b"\xff\xfe", b'{"id": 6, "method": "\xff"}', b"[" + b" " * (40 << 20) + b"]",
                                                b'{"id": 7, "method": ["ping"]}', b'{"id": 8, "method": {}, "params": [1]}']
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"\n".join(sent))))
    monkeypatch.setattr(sys, "stdout", answers)
    main([])
    found = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert len(found) == len(sent)
    for answer in found:
        assert "error" in answer or answer["result"]["isError"]
    assert not list(tmp_path.iterdir())
