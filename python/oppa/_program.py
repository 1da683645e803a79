"""The program `oppa`: where it is, one call of it, and a conversation with `oppa serve`."""
from __future__ import annotations

import contextlib
import itertools
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
from typing import Any, Dict, List, NoReturn, Optional, Sequence, Set


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


def _plain(value: Any) -> Any:
    """A number that json does not know, as Python's: of numpy, torch, Decimal."""
    for convert in ("item", "__index__", "__float__"):
        if hasattr(value, convert):
            return getattr(value, convert)()
    raise OppaError(f"{value!r} ({type(value).__name__}) is no number, text, list or dict")


def _line(request: Dict[str, Any]) -> bytes:
    try:
        return (json.dumps(request, default=_plain, allow_nan=False) + "\n").encode()
    except ValueError as error:
        raise OppaError(f"{request['op']}: a number is not finite, or a value has no plain number: {request}") from error


_servers: "weakref.WeakSet[Server]" = weakref.WeakSet()


class Server:
    """`oppa serve WORDS`, which ends with this process or with close().

    Requests have numbers, which their answers repeat. A thread reads the answers, so that an exception that ends the
    wait for one (Ctrl-C, a timer) does not change what another request gets: an answer that nobody waits for is
    dropped, and a trial in it is that of the next `ask`.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._changed = threading.Condition()  # reentrant: a signal handler may make a request, too
        self._answers: Dict[Any, Any] = {}
        self._waiting: Set[int] = {0}  # 0: the greeting
        self._numbers = itertools.count(1)
        self._left: List[int] = []  # requests for a trial whose answer nobody has got
        self._ended = False
        self._errors = tempfile.TemporaryFile()
        # A session of its own: Ctrl-C is for this process.
        self._process = subprocess.Popen([find_program(), "serve", *words], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True)
        _servers.add(self)
        threading.Thread(target=_read, args=(self._process.stdout, weakref.ref(self)), daemon=True).start()
        self.hello = self._await(0)

    def request(self, op: str, **fields: Any) -> Any:
        """The answer to a request. Raises OppaError with the program's message."""
        with self._changed:
            if op == "ask" and self._left:
                return self._await(self._left.pop(), op)
            number = next(self._numbers)
            return self._await(number, op, _line({"op": op, **fields, "id": number}))

    def close(self) -> None:
        """Ends the program. A trial that is running is not recorded."""
        self.close_pipes()
        self._process.wait()

    def close_pipes(self) -> None:
        # The thread ends with the program, whose input this is.
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()

    def take(self, answer: Optional[Dict[str, Any]]) -> None:
        """An answer of the program; None: there are no more."""
        with self._changed:
            self._ended = self._ended or answer is None
            number = answer.pop("id", 0) if answer is not None else None
            if number in self._waiting:
                self._answers[number] = answer
            self._changed.notify_all()

    def _await(self, number: int, op: str = "", line: bytes = b"") -> Any:
        got = False
        sent = not line
        try:
            with self._changed:
                self._waiting.add(number)
                try:
                    assert self._process.stdin is not None
                    self._process.stdin.write(line)
                    sent = True
                    self._process.stdin.flush()  # also what an interrupted call has left
                except (OSError, ValueError):
                    self._fail()
                while number not in self._answers and not self._ended:
                    self._changed.wait()
                if number not in self._answers:
                    self._fail()
                answer = self._answers.pop(number)
                self._waiting.discard(number)
                got = True
        finally:
            if not got and sent and op == "ask":
                self._left.append(number)
            elif not got:
                self._waiting.discard(number)
                self._answers.pop(number, None)
        if "error" in answer:
            raise OppaError(answer["error"])
        return answer

    def _fail(self) -> NoReturn:
        code = self._process.wait()
        self._errors.seek(0)
        message = _message(self._errors.read().decode(errors="replace"))
        raise OppaError(message or f"oppa serve ended with exit code {code}")


def _read(lines: Any, server: "weakref.ref[Server]") -> None:
    for line in lines:
        try:
            answer = json.loads(line)
        except ValueError:
            break  # OPPA names another program
        target = server()
        if target is None:
            return
        target.take(answer)
        del target
    target = server()
    if target is not None:
        target.take(None)


def _close_in_child() -> None:
    # A process that was forked, such as a loader of data, must not keep the program alive.
    for server in list(_servers):
        server.close_pipes()


os.register_at_fork(after_in_child=_close_in_child)
