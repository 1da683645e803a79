"""`python -m oppa.mcp [FILE.toml [STORAGE]]`: oppa as tools of the Model Context Protocol, on standard input and output.

With a manifest, the tools drive its search; without one, there is only `plan`.
"""
from __future__ import annotations

import functools
import json
import os
import sys
from typing import Any, Dict, List, Mapping, Optional

from ._plan import plan
from ._program import OppaError, __version__
from ._study import _OUTCOMES, Study, create_study

_MOST_BYTES = 16 << 20  # of a request
_NUMBER = {"type": "number"}
_STRING = {"type": "string"}
_INTEGER = {"type": "integer"}


def _tool(name: str, description: str, properties: Mapping[str, Any], required: List[str]) -> Dict[str, Any]:
    return {"name": name, "description": description,
            "inputSchema": {"type": "object", "properties": properties, "required": required}}


_PLAN = _tool("plan", "Predict the fastest parallel layouts of a training job, with the command to start each.", {
    "model": {"type": "string", "description": "config.json, its folder, or layers=32,hidden=4096,heads=32,..."},
    "gpus": {"type": "string", "description": "nodes x GPUs: 2x8"}, "gpu": {"type": "string", "description": "kind: h100"},
    "batch": {"type": "integer", "description": "sequences of a step over all GPUs"},
    "seq": {"type": "integer", "description": "tokens of a sequence"},
    "framework": {"type": "string", "description": "one or several: megatron-lm,torchtitan (default), deepspeed, ..."},
    "why": {"type": "string", "description": "explain the best configuration with these values: dp=8,tp=2"},
}, ["model", "gpus", "batch", "seq"])
_SEARCH = [
    _tool("ask", "The next configuration to try. It runs until it is told; one at a time.", {}, []),
    _tool("tell", "Record the result of the running trial.", {
        "trial": _INTEGER, "outcome": {"enum": list(_OUTCOMES.values())},
        "step_times_s": {"type": "array", "items": _NUMBER, "description": "of all max_steps, the first one included"},
        "peak_memory_bytes": _NUMBER, "message": _STRING}, ["trial", "outcome"]),
    _tool("best", "The best completed trial.", {}, []),
    _tool("trials", "All trials on record.", {}, []),
    _tool("space", "The values of each parameter.", {}, []),
    _tool("enqueue", "Try a configuration next.", {"config": {"type": "string", "description": "dp=4,pp=2"}}, ["config"]),
]


@functools.lru_cache(maxsize=None)
def _study(manifest: str, storage: Optional[str] = None) -> Study:
    return create_study(manifest, storage, load_if_exists=True)


def _call(words: List[str], name: str, arguments: Dict[str, Any]) -> Any:
    tools = {tool["name"]: tool["inputSchema"] for tool in [_PLAN, *_SEARCH]}
    if name not in list(tools):
        raise OppaError(f"unknown tool {name!r}; known: {', '.join(tools)}")
    if not words and name != "plan":
        raise OppaError(f"{name} needs a manifest: python -m oppa.mcp FILE.toml")
    if not isinstance(arguments, dict):
        raise OppaError(f"{name}: the arguments must be an object")
    unknown = arguments.keys() - tools[name]["properties"].keys()
    if unknown:  # options of `oppa plan` that write files are not for agents
        raise OppaError(f"{name} has no {', '.join(sorted(unknown))}")
    missing = [each for each in tools[name]["required"] if each not in arguments]
    if missing:
        raise OppaError(f"{name} needs {', '.join(missing)}")
    if name != "plan":
        return _study(*words[:2])._request(name, **arguments)
    why = arguments.pop("why", None)
    found = plan(**arguments)
    return found.why(why) if why else [dict(one.raw, framework=one.framework) for one in found.layouts[:5]]


def _answer(words: List[str], method: str, params: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    if method == "initialize":
        return {"protocolVersion": params.get("protocolVersion", "2025-06-18"), "capabilities": {"tools": {}},
                "serverInfo": {"name": "oppa", "version": __version__}}
    if method == "tools/list":
        return {"tools": [_PLAN, *(_SEARCH if words else [])]}
    if method == "tools/call":
        try:
            result = _call(words, params.get("name", ""), params.get("arguments") or {})
            text, failed = result if isinstance(result, str) else json.dumps(result), False
        except Exception as error:  # no request ends the server
            text, failed = str(error) or repr(error), True
        return {"content": [{"type": "text", "text": text}], "isError": failed}
    return {} if method == "ping" else None


def main(words: List[str]) -> None:
    for line in iter(lambda: sys.stdin.buffer.readline(_MOST_BYTES), b""):
        number = None
        try:
            size = len(line)
            while len(line) == _MOST_BYTES and not line.endswith(b"\n"):
                line = sys.stdin.buffer.readline(_MOST_BYTES)
                size += len(line)
            if size > _MOST_BYTES:
                raise ValueError(f"a request of {size} bytes: one has at most {_MOST_BYTES}")
            request = json.loads(line.decode())
            if not isinstance(request, dict):
                raise ValueError("it must be an object")
            if "id" not in request:
                continue  # a notification
            if not isinstance(request["id"], (int, str)):
                raise ValueError("its id must be an integer or a string")
            number, method, params = request["id"], request.get("method"), request.get("params") or {}
            if not isinstance(method, str) or not isinstance(params, dict):
                raise ValueError("its method must be a string, its params must be an object")
            result = _answer(words, method, params)
            error = {"code": -32601, "message": f"unknown method {method}"}
        except Exception as wrong:
            result, error = None, {"code": -32600, "message": f"invalid request: {wrong}"}
        print(json.dumps({"jsonrpc": "2.0", "id": number,
                          **({"error": error} if result is None else {"result": result})}), flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as wrong:  # nobody reads the answers
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left to write when this process ends
        sys.exit(f"oppa: cannot write the answer: {wrong.strerror}")
