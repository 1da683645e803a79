"""An agent drives a search by the Model Context Protocol, with the client of its Python library."""
import asyncio
import json
import os
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
