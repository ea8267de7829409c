"""The steward: process 1 of a container that is one session.

It starts the template, which becomes the session's interpreter, holds the session's wires, and
speaks with the host by frames on its stdin and stdout. It has one thread, and waits in one place
only. It never looks into what the session says. Hostile code runs beside it as another user.
"""

from belljar_guest import BUILTINS as __builtins__

import errno
import os
import select
import _signal
import socket
import sys
import time

from belljar_guest.container import Counts, attest
from belljar_guest.file_requests import FileRequests
from belljar_guest.relay import Wires
from belljar_guest.wire import frame_lengths, from_json, to_json, unpack_lengths

_VERSION = 1
_WORKSPACE = "/workspace"
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from belljar_guest.template import main; main()"
_MAX_MESSAGE = 64 << 10
_MAX_ERROR = 2000
_READ = 64 << 10
_COUNT_EVERY = 0.05  # seconds
_CLEAR_WITHIN = 1.0
_SEND_WITHIN = 10.0
# The host must be behind by so much before counts are left out.
_MUCH_UNSENT = 1 << 20


def main():
    """Serves until the host closes its end, and with it ends the container."""
    try:
        Steward().serve()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(70)


class Steward:
    """One session, and the way to the host."""

    def __init__(self):
        self.heard = bytearray()  # not yet a whole frame
        self.unsent = bytearray()
        self.last_heard = time.monotonic()
        self.silence = None  # seconds without a word of the host after which this ends
        self.template = None  # its socket
        self.step = None  # what is asked of the template
        self.interpreter = 0
        self.watched = set()
        self.wires = None
        self.counts = None
        self.next_counts = None  # when; none while nothing is measured
        self.files = FileRequests(self.send, self.send_raw)
        self.poll = select.poll()
        self.interests = {}  # of the poll
        self.wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        _signal.signal(_signal.SIGCHLD, lambda signum, frame: None)
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
        _signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        os.set_blocking(0, False)
        os.set_blocking(1, False)

    def serve(self):
        while True:
            self._set_interests()
            ready = dict(self.poll.poll(self._patience()))
            if self.wake in ready:
                self._reap()
            if 0 in ready:
                self._hear()
            if self.template is not None and self.template.fileno() in ready:
                self._hear_template()
            self.files.move(ready)
            if self.wires is not None:
                self.wires.move(ready)
            self._keep_time()
            self._flush()

    # The way to the host

    def send(self, header, blob=b""):
        head = to_json(header)
        self.unsent += frame_lengths(len(head), len(blob))
        self.unsent += head
        self.unsent += blob

    def send_raw(self, frame):
        self.unsent += frame

    def _flush(self):
        try:
            while self.unsent:
                del self.unsent[: os.write(1, self.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            os._exit(0)

    def _hear(self):
        try:
            data = os.read(0, _READ)
        except BlockingIOError:
            return
        if not data:
            os._exit(0)
        self.last_heard = time.monotonic()
        self.heard += data
        while len(self.heard) >= 8:
            head, blob = unpack_lengths(self.heard)
            end = 8 + head + blob
            if len(self.heard) < end:
                return
            frame = bytes(memoryview(self.heard)[:end])
            del self.heard[:end]
            self._answer(from_json(frame[8 : 8 + head]), frame, 8 + head)

    def _answer(self, request, frame, blob):
        """Does what one frame asks for; its raw bytes begin at `blob`."""
        kind = request["type"]
        if kind == "control":
            if self.wires is not None:
                self.wires.give(frame[blob:])
        elif kind == "credit":
            if self.wires is not None:
                self.wires.window += request["bytes"]
        elif kind == "interrupt":
            self._interrupt(request["cell"])
        elif kind == "file":
            self.files.ask(request["id"], frame)
        elif kind == "signal":
            self._signal(request["pid"], request["signal"])
        elif kind == "watch":
            self._watch(request["pid"])
        elif kind == "end_all_but":
            self._end_all_but(request["pids"])
        elif kind == "measure":
            self._measure(request["on"])
        elif kind == "hello":
            self._hello(request)
        elif kind == "warm":
            self._attempt("warm", self._warm, request)
        elif kind == "start":
            self._attempt("start", self._start, request)
        elif kind != "alive":
            raise ValueError(f"unknown type {kind!r}")

    def _failed(self, step, error):
        self.send({"type": "failed", "step": step, "error": error[:_MAX_ERROR]})

    def _attempt(self, step, action, request):
        self.step = step
        try:
            action(request)
        except Exception as error:
            self.step = None
            self._failed(step, f"{type(error).__name__}: {error}")

    def _hello(self, request):
        if request["version"] != _VERSION:
            self._failed("hello", f"this is version {_VERSION}")
            return
        self.silence = request.get("silence_s")
        self.send({"type": "attest", "version": _VERSION, **attest(request.get("modules"))})

    # The interpreter

    def _warm(self, request):
        if self.wires is not None:
            raise RuntimeError("there is a session already")
        if self.interpreter:
            # Anew, with another list: a module that is half imported would fail in stranger ways.
            self.template.close()
            self._kill(self.interpreter, _signal.SIGKILL)
            os.waitpid(self.interpreter, 0)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.interpreter = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-X", "utf8", "-c", _BOOT, os.path.dirname(os.path.dirname(__file__))],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, 2, 1),
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), 3),
            ],
            setsigdef=[_signal.SIGINT],
        )
        theirs.close()
        self.template = ours
        # One thread, since the limits of the session hold already.
        self._tell_template(
            {"op": "warm", "preload": request["preload"], "fonts": request["fonts"], "threads": 1}
        )

    def _start(self, request):
        if self.template is None or not self.interpreter or self.wires is not None:
            raise RuntimeError("there is no warm template")
        uid, gid = request["uid"], request["gid"]
        # In this order: what is another user's it may not change any more.
        os.chmod(_WORKSPACE, 0o700)
        os.chown(_WORKSPACE, uid, gid)
        self.files.become = uid, gid, request["filters"]
        self.wires, fds = Wires.make(self.send, self._before_control)
        try:
            self._tell_template({**request, "op": "become"}, fds)
        finally:
            for fd in fds:
                os.close(fd)

    def _tell_template(self, message, fds=()):
        data = to_json(message)
        if len(data) > _MAX_MESSAGE:
            raise ValueError("too long for the template")
        until = time.monotonic() + _SEND_WITHIN
        while True:
            try:
                socket.send_fds(self.template, [data], fds)
                return
            except OSError as error:
                # The kernel counts descriptors on their way for all processes of root, on the whole host.
                if error.errno != errno.ETOOMANYREFS or time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def _hear_template(self):
        try:
            data = self.template.recv(_MAX_MESSAGE)
        except ConnectionError:
            data = b""
        if not data:
            # It has ended, or it is the session now.
            self.template.close()
            self.template = None
            return
        step, self.step = self.step, None
        try:
            message = from_json(data)
        except (ValueError, StopIteration):
            message = {}
        if message.pop("event", None) == "warm":
            self.send({"type": "warm", **message})
        else:
            self._failed(step, str(message.get("error", "the template was not understood")))

    def _before_control(self):
        """Before anything of the session's is passed on."""
        if self.step == "start":
            self.step = None
            self.watched.add(self.interpreter)
            self.send({"type": "started", "pid": self.interpreter})
        if self.next_counts is not None:
            self._count()

    def _interrupt(self, cell):
        if self.wires is not None and self.interpreter:
            self.wires.interrupt(cell)
            self._kill(self.interpreter, _signal.SIGINT)

    # Processes

    def _signal(self, pid, name):
        if pid < 2:
            return
        if name == "wake":
            self.interpreter = pid
            self._watch(pid)
        self._kill(pid, _signal.SIGUSR2 if name == "wake" else _signal.SIGKILL)

    def _kill(self, pid, number):
        """Whether there is such a process."""
        try:
            os.kill(pid, number)
            return True
        except ProcessLookupError:
            return False

    def _watch(self, pid):
        if pid > 1 and self._kill(pid, 0):
            self.watched.add(pid)
        else:
            self.send({"type": "exited", "pid": pid, "status": None})

    def _reap(self):
        """Takes what is left of ended processes; as process 1 it gets those of all others."""
        try:
            while os.read(self.wake, 4096):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                if pid == self.files.pid:
                    # By code of the session, which is the same user: it would never answer.
                    self._kill(pid, _signal.SIGKILL)
            else:
                self._ended(pid, status)

    def _ended(self, pid, status):
        if self.wires is not None and (pid == self.interpreter or pid in self.watched):
            self.wires.drain()  # what it said before comes first
        if pid == self.interpreter:
            self.interpreter = 0
            if self.step is not None:
                step, self.step = self.step, None
                self._failed(step, f"the template ended with {os.waitstatus_to_exitcode(status)}")
        if pid in self.watched:
            self.watched.discard(pid)
            if self.counts is not None:
                self._count()  # whether memory ran out is known before the end is
            self.send({"type": "exited", "pid": pid, "status": status})

    def _end_all_but(self, pids):
        kept = {1, self.files.pid, *pids}
        until = time.monotonic() + _CLEAR_WITHIN
        while True:
            # All at once, so that none can make another before it is killed.
            self._kill(-1, _signal.SIGSTOP)
            others = [pid for pid in _processes() if pid not in kept]
            for pid in others:
                self._kill(pid, _signal.SIGKILL)
            for pid in kept:
                if pid > 1:
                    self._kill(pid, _signal.SIGCONT)
            self._reap()
            if not others or time.monotonic() > until:
                break
            time.sleep(0.002)
        self.send({"type": "cleared", "cleared": not others})

    # Time

    def _measure(self, on):
        if self.counts is None:
            self.counts = Counts()
        self._count()
        self.next_counts = time.monotonic() + _COUNT_EVERY if on else None

    def _count(self):
        if len(self.unsent) < _MUCH_UNSENT:
            self.send({"type": "counts", **self.counts.now()})

    def _keep_time(self):
        now = time.monotonic()
        if self.next_counts is not None and now >= self.next_counts:
            self.next_counts = now + _COUNT_EVERY
            self._count()
        if self.silence is not None and now - self.last_heard > self.silence:
            os._exit(0)

    def _patience(self):
        """Milliseconds until something is to be done; none if nothing is."""
        times = []
        if self.next_counts is not None:
            times.append(self.next_counts)
        if self.silence is not None:
            times.append(self.last_heard + self.silence)
        return max(0, min(times) - time.monotonic()) * 1000 + 1 if times else None

    def _set_interests(self):
        wanted = {0: select.POLLIN, self.wake: select.POLLIN}
        if self.unsent:
            wanted[1] = select.POLLOUT
        if self.template is not None:
            wanted[self.template.fileno()] = select.POLLIN
        self.files.add_interests(wanted, len(self.unsent) < _MUCH_UNSENT)
        if self.wires is not None:
            self.wires.add_interests(wanted)
        if wanted != self.interests:
            # None without an interest is left in: that its other end is closed would be said again and again.
            for fd in self.interests:
                self.poll.unregister(fd)
            for fd, events in wanted.items():
                self.poll.register(fd, events)
            self.interests = wanted


def _processes():
    """Those of the container that have not ended."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state = file.read().rpartition(b")")[2].split()[0]
            except OSError:
                continue
            if state not in (b"Z", b"X"):
                yield int(name)
