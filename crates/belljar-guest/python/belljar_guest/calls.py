"""Calls of a cell to tools of the host: many at once, from any thread and any event loop.

Each call gets its number when it is made. Answers come over the session's one channel, in any order,
and no thread is kept for them: of the waiting threads, one reads for all (the leader), and hands that on
when it has its own answer. An event loop reads when the channel is readable and nobody leads.
"""

from belljar_guest import BUILTINS as __builtins__

import _thread
import asyncio
import collections
import os
import time

from belljar_guest.forks import fork
from belljar_guest.state import STATE, on_main_thread, release
from belljar_guest.wire import send

_getpid = os.getpid
_sleep = time.sleep
_allocate_lock = _thread.allocate_lock
_running_loop = asyncio._get_running_loop
_deque = collections.deque

# What the host takes: calls that it has not answered, and bytes of their arguments. More wait here.
_MOST = 4096
_MOST_BYTES = 8 << 20
# How long a thread that leads looks away from the end of its cell, in milliseconds.
_LOOK_MS = 10


class ToolError(Exception):
    """A tool failed. The message is the tool's own."""


class ToolDenied(ToolError):
    """The host did not let the tool be called: it is not granted, or not with these arguments."""


ToolError.__module__ = ToolDenied.__module__ = "tools"
_OVER = {"error": "the cell that made this call has ended"}


class Pending(asyncio.Future):
    """The result of a call that was made where an event loop runs: to be awaited."""

    def _refuse(self, *_):
        raise TypeError("this call is under way: write `await` before it to get its result")

    __getitem__ = __iter__ = __len__ = _refuse

    def __getattr__(self, name):
        raise AttributeError(
            f"a call that is under way has no attribute {name!r}: write `await` before the call"
        )


class Call:
    __slots__ = ("number", "header", "data", "take", "main", "ready", "loop", "future", "answer")

    def __init__(self, header, data, take, loop):
        self.number = 0
        self.header = header
        self.data = data
        self.take = take
        self.main = on_main_thread()
        self.loop = loop
        self.answer = None
        self.future = self.ready = None
        if self.loop is None:
            self.ready = _allocate_lock()
            self.ready.acquire()
        else:
            self.future = Pending(loop=self.loop)

    def wake(self):
        try:
            self.ready.release()
        except RuntimeError:
            pass  # it is awake

    def settle(self):
        """On its event loop: the future has its result."""
        if self.future.done():
            return
        try:
            self.future.set_result(self.take(self.answer))
        except BaseException as error:
            self.future.set_exception(error)


class Calls:
    """The calls of the cell that runs."""

    def __init__(self, session):
        self._session = session
        self.limit = 0  # calls that a cell may make; none before tools are granted
        self._pid = 0
        self._made = 0
        self._closing = True

    def begin(self):
        """A cell starts."""
        if self._pid != STATE.pid:
            # In a checkpoint or a fork: a thread that it lacks may have held it.
            self._lock = _allocate_lock()
            self._pid = STATE.pid
        self._enter()
        self._made = 0
        self._open = {}  # by number: those that somebody waits for
        self._queue = _deque()  # those that are not sent yet
        self._sent = {}  # bytes by number: those that the host has not answered
        self._sent_bytes = 0
        self._given_up = 0
        self._leader = None  # who reads: a call, or an event loop
        self._fork = None  # a request that the main thread has to take
        self._loops = set()  # those that watch the channel
        self._closing = False
        self._leave()

    def end(self):
        """The cell's code is over: nobody reads from the channel any more, and nobody waits."""
        self._closing = True
        while self._leader is not None:
            _sleep(0.001)
        for call in list(self._open.values()):
            call.answer = _OVER
            if call.loop is None:
                call.wake()
            else:
                _on_loop(call.loop, call.future.cancel)
        self._open.clear()
        for loop in self._loops:
            _on_loop(loop, loop.remove_reader, STATE.control)

    def _become_fork(self, call):
        """In a fork, where the call's thread is the only one."""
        made = self._made
        self.begin()
        self._made = made
        self._open[call.number] = call
        self._sent[call.number] = 0
        self._leader = call

    def make(self, tool, data, take):
        """Calls a tool. What comes back is `take(answer)`, or a future of it where a loop runs."""
        if not self.limit or not STATE.cell or _getpid() != STATE.pid:
            raise RuntimeError("tools can be called by the code of a cell while it runs")
        if self._made >= self.limit:
            raise ToolDenied(f"a cell may make {self.limit} calls, and this one has made them")
        return self._perform(Call({"type": "called", "tool": tool}, data, take, _running_loop()))

    def ask(self, prompt, password):
        """Asks the client for a line; None at the end of input. Blocks, also where an event loop runs."""
        header = {"type": "asked", "prompt": prompt, "password": password}
        return self._perform(Call(header, b"", _line, None))

    def _perform(self, call):
        if call.main:
            self._session.streams.flush()
        try:
            self._enter()
            try:
                self._register(call)
            finally:
                self._leave()
            if call.loop is None:
                self._wait(call)
        except BaseException:
            self._give_up(call)
            raise
        return call.future if call.loop is not None else call.take(call.answer)

    # No interrupt strikes between these two, and no other thread is between them.

    def _enter(self):
        if on_main_thread():
            STATE.hold += 1
        self._lock.acquire()

    def _leave(self):
        self._lock.release()
        if on_main_thread():
            release()

    def _register(self, call):
        if self._closing:
            raise ToolError(_OVER["error"])
        if "tool" in call.header and self._made >= self.limit:
            raise ToolDenied(f"a cell may make {self.limit} calls, and this one has made them")
        if self._given_up >= _MOST // 2:
            raise ToolDenied(f"this cell has given up {self._given_up} calls before their answers")
        if call.loop is not None and call.loop not in self._loops:
            call.loop.add_reader(STATE.control, self._on_readable)
            self._loops.add(call.loop)
        self._made += 1
        call.number = self._made
        self._open[call.number] = call
        if call.loop is not None:
            call.future.add_done_callback(lambda future: future.cancelled() and self._give_up(call))
        self._queue.append(call)
        self._send_queued()

    def _send_queued(self):
        while self._queue:
            call = self._queue[0]
            size = len(call.data)
            if len(self._sent) >= _MOST or self._sent_bytes + size > _MOST_BYTES:
                return
            self._queue.popleft()
            data, call.data = call.data, None
            self._sent[call.number] = size
            self._sent_bytes += size
            header = {**call.header, "cell": STATE.cell, "nonce": STATE.nonce}
            header["number"] = call.number
            header["blocks"] = call.main and call.loop is None
            send(header, data)

    def _give_up(self, call):
        """Nobody waits for it any more."""
        if not call.number:
            return
        self._enter()
        try:
            if self._leader is call:
                self._leader = None
            if self._open.get(call.number) is call and not self._closing:
                del self._open[call.number]
                if call.data is None:
                    self._given_up += 1
                    told = {"type": "cancelled", "cell": STATE.cell, "nonce": STATE.nonce}
                    send({**told, "number": call.number})
                else:
                    self._queue.remove(call)
            self._hand_on()
        finally:
            self._leave()

    def _wait(self, call):
        while call.answer is None:
            self._enter()
            leads = self._leader is None and not self._closing
            if leads:
                self._leader = call
            self._leave()
            if leads:
                self._lead(call)
            else:
                call.ready.acquire()

    def _lead(self, call):
        """Reads answers, of all calls, until its own is there."""
        reader = self._session.reader
        while call.answer is None and not self._closing:
            # An interrupt strikes here, and never within a request.
            if self._fork is not None or reader.is_waited_for(60_000 if call.main else _LOOK_MS):
                self._read(call)
            if self._fork is not None and not call.main:
                break
        self._enter()
        self._leader = None
        self._hand_on()
        self._leave()

    def _hand_on(self):
        """Somebody else may lead: the main thread if it has something to do, or any that waits."""
        if self._leader is not None:
            return
        for call in self._open.values():
            if call.loop is None and (call.main or self._fork is None):
                call.wake()
                return

    def _on_readable(self):
        """On an event loop."""
        main = on_main_thread()
        if main:
            STATE.hold += 1
        try:
            self._enter()
            leads = self._leader is None and not self._closing
            if leads:
                self._leader = self
            self._leave()
            if leads:
                try:
                    if self._session.reader.is_waited_for(0):
                        self._read(None)
                finally:
                    self._enter()
                    self._leader = None
                    self._hand_on()
                    self._leave()
        finally:
            if main:
                release()

    def _read(self, call):
        """Takes one request of the host; who calls this leads."""
        main = on_main_thread()
        if main:
            STATE.hold += 1
        try:
            request, self._fork = self._fork, None
            if request is None:
                request = self._session.reader.next(exactly=True)
            if request["type"] == "answer":
                self._take_answer(request)
            elif request["type"] == "fork":
                if call is None or not call.main:
                    self._fork = request
                elif fork(
                    self._session, request["count"], request.get("withheld", ())
                ) is not None:
                    self._become_fork(call)
        finally:
            if main:
                release()

    def _take_answer(self, request):
        number = request["number"]
        self._enter()
        try:
            self._sent_bytes -= self._sent.pop(number, 0)
            call = self._open.pop(number, None)
            self._send_queued()
        finally:
            self._leave()
        if call is None:
            return  # it was given up
        call.answer = request
        if call.loop is None:
            call.wake()
        else:
            _on_loop(call.loop, call.settle)


def _line(answer):
    return answer.get("value")


def _on_loop(loop, action, *args):
    """Does something on an event loop, which may be another thread's, or closed."""
    try:
        if loop is _running_loop() or not loop.is_running():
            action(*args)
        else:
            loop.call_soon_threadsafe(action, *args)
    except Exception:
        pass
