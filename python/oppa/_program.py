"""The program `oppa`: where it is, one call of it, and a conversation with `oppa serve`."""
from __future__ import annotations

import atexit
import collections
import contextlib
import importlib.metadata
import io
import itertools
import json
import os
import queue
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any, Deque, Dict, NoReturn, Optional, Sequence, Tuple


try:
    __version__: str = importlib.metadata.version("oppa-planner")
except importlib.metadata.PackageNotFoundError:
    __version__ = "0+clone"


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


class Program:
    """The program as it was found, and the folder that relative paths are relative to: os.chdir() changes neither."""

    def __init__(self) -> None:
        self.path = find_program()
        self.folder: Optional[str] = None
        with contextlib.suppress(FileNotFoundError):  # it was removed
            self.folder = os.getcwd()

    def start(self, words: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
        folder = self.folder if self.folder and os.path.isdir(self.folder) else None
        try:
            return subprocess.Popen([self.path, *words], stdout=subprocess.PIPE, cwd=folder, **options)
        except (OSError, ValueError) as error:  # no program of this machine; a NUL in a word
            raise OppaError(f"cannot start {self.path}: {error}") from error

    def run(self, words: Sequence[str]) -> str:
        """The output of `oppa WORDS`. Raises OppaError with its message where it fails."""
        process = self.start(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        with process:
            output, errors = process.communicate()
        if process.returncode != 0:
            raise OppaError(_message(errors.decode(errors="replace")) or
                            f"oppa {words[0]} ended with exit code {process.returncode}")
        return output.decode()

    def run_json(self, words: Sequence[str]) -> Any:
        output = self.run(words)
        try:
            return json.loads(output)
        except ValueError as error:
            raise OppaError(self.is_another()) from error

    def is_another(self) -> str:
        return f"{self.path} is not the program oppa: it answers no JSON; unset OPPA, or set it to the path of oppa"


def _plain(value: Any) -> Any:
    """A number that json does not know, as Python's: of numpy, torch, Decimal."""
    for convert in ("item", "__index__", "__float__"):
        if hasattr(value, convert):
            return getattr(value, convert)()
    raise OppaError(f"{value!r} ({type(value).__name__}) is no number, text, list or dict")


def _line(request: Dict[str, Any]) -> bytes:
    try:
        text = json.dumps(request, default=_plain, allow_nan=False, ensure_ascii=False)
        return (text + "\n").encode(errors="replace")  # halves of characters, as in names of files that are no UTF-8
    except (ValueError, TypeError, RuntimeError) as error:
        shown = str({name: value for name, value in request.items() if name not in ("op", "id")})[:300]
        raise OppaError(f"{request['op']}: a number is not finite, or a value has no plain number: {shown}") from error


class ServerDied(OppaError):
    """The program was killed, before or while it answered."""


_servers: "weakref.WeakSet[Server]" = weakref.WeakSet()


class Server:
    """`oppa serve WORDS`, which ends with this process or with close().

    Requests have numbers, which their answers repeat, except where the program cannot read the request: that is the oldest
    one without an answer. One thread writes the requests and one reads the answers, so that
    an exception that ends the wait for one (Ctrl-C, a timer) tears no request and does not change what another request
    gets: an answer that nobody waits for is dropped. `ask` is sent again with its number, and gets the same trial.
    """

    def __init__(self, program: Program, words: Sequence[str]) -> None:
        self._program = program
        # A queue for each request whose answer is awaited, since an interrupt leaves no lock of it half released. 0: the
        # greeting.
        self._waiting: "Dict[int, queue.SimpleQueue[Any]]" = {0: queue.SimpleQueue()}
        self._sent: Deque[int] = collections.deque([0])  # without an answer so far
        self._numbers = itertools.count(1)
        self.left: Dict[int, int] = {}  # by thread: its request for a trial whose answer it has not got
        self.ended = False
        self._errors = tempfile.TemporaryFile()
        self._requests: "queue.SimpleQueue[Optional[Tuple[int, bytes]]]" = queue.SimpleQueue()  # reentrant, too
        # A session of its own: Ctrl-C is for this process. No buffer, whose lock a forked child would inherit.
        self._process = program.start(["serve", *words], stdin=subprocess.PIPE, stderr=self._errors, bufsize=0,
                                      start_new_session=True)
        self.pid = self._process.pid
        _servers.add(self)
        weakref.finalize(self, self._requests.put, None)
        threading.Thread(target=_write, args=(self._process.stdin, self._requests, self._sent), daemon=True).start()
        threading.Thread(target=_read, args=(self._process.stdout, weakref.ref(self)), daemon=True).start()
        try:
            self.hello = self._await(0)
            if "name" not in self.hello:
                raise OppaError(program.is_another())
        except BaseException:
            self.kill()
            raise

    def request(self, op: str, **fields: Any) -> Any:
        """The answer to a request. Raises OppaError with the program's message."""
        left = self.left.get(threading.get_ident()) if op == "ask" else None
        number = next(self._numbers) if left is None else left
        return self._await(number, op, _line({"op": op, **fields, "id": number}))

    def close(self) -> None:
        """Ends the program. A trial that is running is not recorded."""
        self._requests.put(None)
        if self.wait() is None:  # it is stopped, or this is the end of the interpreter, without its threads
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """The same at once, also where the program does not answer."""
        self._process.kill()
        self.close()

    def wait(self) -> Optional[int]:
        """The exit code of the program; None: it runs on."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(5.0)
        return None

    def leave(self) -> None:
        """In a forked process, whose parent keeps the program: such as a loader of data must not keep it alive."""
        self.ended = True
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()

    def take(self, answer: Optional[Dict[str, Any]]) -> None:
        """An answer of the program; None: there are no more."""
        self.ended = self.ended or answer is None
        oldest = self._sent.popleft() if answer is not None and self._sent else None
        number = answer.get("id", oldest) if answer is not None else None
        for waiting, answers in list(self._waiting.items()):
            if answer is None or waiting == number:
                answers.put(answer)

    def _await(self, number: int, op: str = "", line: Optional[bytes] = None) -> Any:
        got = False
        try:
            answers = self._waiting.setdefault(number, queue.SimpleQueue())
            if line is not None:
                self._requests.put((number, line))
            answer = None
            while answer is None:
                ended = self.ended
                with contextlib.suppress(queue.Empty):
                    answer = answers.get(not ended, 1.0)
                if answer is None and ended:
                    self._fail(number)
            self._waiting.pop(number, None)
            got = True  # no call follows, which an interrupt could precede
        finally:
            if not got:
                self._waiting.pop(number, None)
                if op == "ask":
                    self.left[threading.get_ident()] = number
        if "error" in answer:
            raise OppaError(answer["error"])
        return answer

    def _fail(self, number: int) -> NoReturn:
        code = self.wait()
        self._errors.seek(0)
        message = _message(self._errors.read().decode(errors="replace"))
        if code is not None and code < 0:
            raise ServerDied(f"oppa serve was ended by signal {-code}")
        if message or number > 0:
            raise OppaError(message or f"oppa serve ended with exit code {code}")
        raise OppaError(self._program.is_another())


def _write(pipe: Any, requests: "queue.SimpleQueue[Optional[Tuple[int, bytes]]]", sent: "Deque[int]") -> None:
    with contextlib.suppress(OSError, ValueError):  # the program has ended
        for number, line in iter(requests.get, None):
            sent.append(number)
            left = memoryview(line)
            while left:
                left = left[pipe.write(left):]
    with contextlib.suppress(OSError):
        pipe.close()


def _read(pipe: Any, server: "weakref.ref[Server]") -> None:
    try:
        for line in io.BufferedReader(pipe):
            answer = json.loads(line)
            target = server()
            if target is None or not isinstance(answer, dict):
                return
            target.take(answer)
            del target
    except (ValueError, RecursionError):
        pass  # OPPA names another program
    finally:
        target = server()
        if target is not None:
            target.take(None)


@atexit.register
def _close_all() -> None:
    for server in list(_servers):
        if not server.ended:
            server.close()


def _leave_all() -> None:
    for server in list(_servers):
        server.leave()


os.register_at_fork(after_in_child=_leave_all)
