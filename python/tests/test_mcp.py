"""An agent drives a search by the Model Context Protocol, with the client of its Python library."""
import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT
from test_study import FOLDER

mcp = pytest.importorskip("mcp")


@contextlib.asynccontextmanager
async def agent(*words):
    """The tools, and a call, which returns whether it failed and its text."""
    from mcp.client.stdio import StdioServerParameters, stdio_client
    server = StdioServerParameters(command=sys.executable, args=["-m", "oppa.mcp", *map(str, words)],
                                   env={**os.environ, "PYTHONPATH": str(FOLDER.parent)})
    async with stdio_client(server) as (read, write), mcp.ClientSession(read, write) as session:
        await session.initialize()

        async def call(name, **arguments):
            result = await session.call_tool(name, arguments)
            return result.model_dump(by_alias=True)["isError"], result.content[0].text

        yield [tool.model_dump(by_alias=True) for tool in (await session.list_tools()).tools], call


def test_an_agent_drives_a_search(manifest, tmp_path):
    async def drive():
        async with agent(manifest, tmp_path) as (tools, call):
            names = [tool["name"] for tool in tools]
            asked = json.loads((await call("ask"))[1])["trial"]
            wrong = await call("tell", trial=1, outcome="completed")
            lacking = await call("plan", gpu="h100", seq=4096)
            told = await call("tell", trial=1, outcome="completed", step_times_s=[1.0] * asked["max_steps"])
            return names, wrong, lacking, told, json.loads((await call("best"))[1])

    names, wrong, lacking, told, best = asyncio.run(drive())
    assert {"plan", "ask", "tell", "best", "enqueue"} <= set(names)
    assert wrong[0] and "6 step_times_s" in wrong[1]
    assert lacking == (True, "plan needs model, gpus, batch")
    assert not told[0]
    assert best["trial"]["number"] == 1


def answers(words, requests, **streams):
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent)}
    return subprocess.run([sys.executable, "-m", "oppa.mcp", *words], input=b"".join(line + b"\n" for line in requests),
                          env=environment, stderr=subprocess.PIPE, **streams)


def test_a_wrong_request_is_answered_by_its_id_and_in_a_sentence(manifest):
    call = b'{"id": 7, "method": "tools/call", "params": {"name": %s, "arguments": %s}}'
    cases = [(b"[]", None, "it must be an object"), (b'{"id": NaN, "method": "ping"}', None, "its id must be"),
             (b'{"id": 7}', 7, "its method must be a string"), (call % (b"{}", b"{}"), 7, "unknown tool {}"),
             (b'{"id": 7, "method": "tools/call", "params": [1]}', 7, "its params must be an object"),
             (call % (b'"ask"', b"[1]"), 7, "arguments must be an object"), (call % (b'"ask"', b'{"op": 1}'), 7, "ask has no op"),
             (call % (b'"hello"', b"{}"), 7, "unknown tool 'hello'"), (call % (b'"tell"', b"{}"), 7, "tell needs trial, outcome")]
    lines = answers([str(manifest)], [request for request, _, _ in cases], stdout=subprocess.PIPE).stdout.splitlines()
    assert len(lines) == len(cases)
    for line, (_, number, message) in zip(lines, cases):
        answer = json.loads(line, parse_constant=pytest.fail)
        assert answer["id"] == number and message in json.dumps(answer)


def test_it_ends_with_a_sentence():
    with open("/dev/full", "wb") as stdout:
        ended = answers([], [b'{"id": 1, "method": "ping"}'], stdout=stdout)
    assert ended.returncode == 1 and b"cannot write the answer" in ended.stderr and ended.stderr.count(b"\n") == 1


def differences(shown, found, place="answer"):
    """Where an answer differs from the part of it that a document shows."""
    if isinstance(shown, dict):
        return [text for key, value in shown.items()
                for text in differences(value, found.get(key, "nothing"), f"{place}.{key}")]
    if isinstance(shown, list):
        return [text for i, value in enumerate(shown) for text in differences(value, found[i], f"{place}[{i}]")]
    same = found == pytest.approx(shown, rel=2e-3) if isinstance(shown, (int, float)) else found == shown
    return [] if same else [f"{place}: the document has {shown}, and the program {found}"]


def test_the_example_of_the_document_has_the_answers_of_the_tools(tmp_path):
    document = (ROOT / "docs/agents.md").read_text()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", document.partition("### Example")[2], re.MULTILINE | re.DOTALL)
    (tmp_path / "tune.toml").write_text(next(text for kind, text in blocks if kind == "toml"))
    shutil.copy(ROOT / "experiments/workloads/qwen2-1.5b.json", tmp_path / "config.json")
    steps = [block for block in blocks if block[0] != "toml"]
    assert len(steps) >= 12

    async def follow():
        async with agent(tmp_path / "tune.toml", tmp_path / "results") as (tools, call):
            for (_, asked), (kind, shown) in zip(steps[::2], steps[1::2]):
                step = json.loads(asked)
                failed, text = await call(step["tool"], **step["arguments"])
                assert not failed, text
                if kind == "text":
                    assert shown.strip() in text
                else:
                    assert differences(json.loads(shown), json.loads(text)) == []
            return tools

    table = document.partition("| tool |")[2].partition("\n\n")[0]
    for tool in asyncio.run(follow()):
        line = next(line for line in table.splitlines() if f"`{tool['name']}`" in line.split("|")[1])
        schema = tool["inputSchema"]
        needed, _, optional = line.split("|")[2].partition("[")
        assert re.findall(r"`(\w+)`", needed) == schema["required"], tool["name"]
        assert sorted(re.findall(r"`(\w+)`", optional)) == sorted(schema["properties"].keys() - set(schema["required"]))


def test_a_wrong_manifest_is_an_answer_and_not_the_end(manifest):
    async def call_twice():
        async with agent(manifest) as (_, call):
            text = manifest.read_text()
            manifest.write_text(text.replace("q_max", "q_mox"))
            wrong = await call("space")
            manifest.write_text(text)
            return wrong, await call("space")

    wrong, right = asyncio.run(call_twice())
    assert wrong[0] and "q_max is missing" in wrong[1]
    assert not right[0]
