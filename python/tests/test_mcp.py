"""An agent drives a search by the Model Context Protocol, with the client of its Python library."""
import asyncio
import json
import os
import subprocess
import sys

import pytest

from test_study import FOLDER

mcp = pytest.importorskip("mcp")


def test_an_agent_drives_a_search(manifest, tmp_path):
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def drive():
        words = ["-m", "oppa.mcp", str(manifest), str(tmp_path)]
        server = StdioServerParameters(command=sys.executable, args=words,
                                       env={**os.environ, "PYTHONPATH": str(FOLDER.parent)})
        async with stdio_client(server) as (read, write), mcp.ClientSession(read, write) as session:
            await session.initialize()
            names = [tool.name for tool in (await session.list_tools()).tools]

            async def call(name, **arguments):
                result = await session.call_tool(name, arguments)
                return result.model_dump(by_alias=True)["isError"], result.content[0].text

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
             (b'{"id": 7, "method": "tools/call", "params": [1]}', 7, "its params must be an object"),
             (call % (b'"ask"', b"[1]"), 7, "arguments must be an object"), (call % (b'"ask"', b'{"op": 1}'), 7, "ask has no op"),
             (call % (b'"hello"', b"{}"), 7, "unknown tool 'hello'"), (call % (b"{}", b"{}"), 7, "unknown tool {}"),
             (call % (b'"tell"', b"{}"), 7, "tell needs trial, outcome")]
    lines = answers([str(manifest)], [request for request, _, _ in cases], stdout=subprocess.PIPE).stdout.splitlines()
    assert len(lines) == len(cases)
    for line, (_, number, message) in zip(lines, cases):
        answer = json.loads(line, parse_constant=pytest.fail)
        assert answer["id"] == number and message in json.dumps(answer)


def test_it_ends_with_a_sentence(tmp_path):
    for words, output, message in [([str(tmp_path / "none.toml")], "/dev/null", b"none.toml: no such file"),
                                   ([], "/dev/full", b"cannot write the answer")]:
        with open(output, "wb") as stdout:
            ended = answers(words, [b'{"id": 1, "method": "ping"}'], stdout=stdout)
        assert ended.returncode == 1 and message in ended.stderr and ended.stderr.count(b"\n") == 1
