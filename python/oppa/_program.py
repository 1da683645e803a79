"""The program `oppa`: where it is, one call of it, and a conversation with `oppa serve`."""
from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any, Sequence


class OppaError(Exception):
    """What the program reports, in its words."""


def find_program() -> str:
    """The path of `oppa`: that of the variable OPPA, else of this environment, of PATH, or of the clone of this package.

    Raises OppaError where there is none.
    """
    if os.environ.get("OPPA"):
        named = shutil.which(os.environ["OPPA"])
        if named is None:
            raise OppaError(f"OPPA={os.environ['OPPA']}: this is no program; unset it, or set it to the path of oppa")
        return os.path.abspath(named)
    package = Path(__file__).resolve().parent
    folders = [
        Path(sys.executable).parent,
        Path(sysconfig.get_path("scripts")),
        Path(sysconfig.get_path("scripts", f"{os.name}_user")),
        package.parent / "bin",  # pip install --target
        *map(Path, os.environ.get("PATH", os.defpath).split(os.pathsep)),
        package.parent.parent / "build" / "release",  # a clone
    ]
    for folder in folders:
        found = shutil.which("oppa", path=str(folder))
        if found:
            return found
    raise OppaError("the program oppa was not found: run `make build` or `make install` in its repository, or set OPPA to its path")


def _message(text: str) -> str:
    text = text.strip()
    return text[len("oppa: "):] if text.startswith("oppa: ") else text


def run(words: Sequence[str]) -> str:
    """The output of `oppa WORDS`. Raises OppaError with its message where it fails."""
    done = subprocess.run([find_program(), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise OppaError(_message(done.stderr) or f"oppa {words[0]} ended with exit code {done.returncode}")
    return done.stdout


_servers: "weakref.WeakSet[Server]" = weakref.WeakSet()


class Server:
    """`oppa serve WORDS`, which ends with this process or with close()."""

    def __init__(self, words: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._errors = tempfile.TemporaryFile()
        # A session of its own: Ctrl-C is for this process.
        self._process = subprocess.Popen([find_program(), "serve", *words], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True)
        _servers.add(self)
        self.hello = self._answer()

    def request(self, op: str, **fields: Any) -> Any:
        """The answer to a request. Raises OppaError with the program's message."""
        with self._lock:
            try:
                assert self._process.stdin is not None
                self._process.stdin.write((json.dumps({"op": op, **fields}) + "\n").encode())
                self._process.stdin.flush()
            except (OSError, ValueError):
                self._fail()
            return self._answer()

    def close(self) -> None:
        """Ends the program. A trial that is running is not recorded."""
        self.close_pipes()
        self._process.wait()

    def close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._fail()
        answer = json.loads(line)
        if "error" in answer:
            raise OppaError(answer["error"])
        return answer

    def _fail(self) -> None:
        code = self._process.wait()
        self._errors.seek(0)
        message = _message(self._errors.read().decode(errors="replace"))
        raise OppaError(message or f"oppa serve ended with exit code {code}")


def _close_in_child() -> None:
    # A process that was forked, such as a loader of data, must not keep the program alive.
    for server in list(_servers):
        server.close_pipes()


os.register_at_fork(after_in_child=_close_in_child)
