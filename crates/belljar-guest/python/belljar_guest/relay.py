"""The steward's ends of a session's wires: control socket, interrupts, stdout, stderr.

What comes out of them has one window, which the host widens. With none left nothing is read, and
the session waits; so nothing that it prints can stop what else is asked of the steward.
"""

from belljar_guest import BUILTINS as __builtins__

import fcntl
import os
import select
import socket
import termios

_WINDOW = 1 << 20
_PIECE = 64 << 10
_CREDIT_STEP = 64 << 10


class Wires:
    """Our ends, never blocking."""

    def __init__(self, send, before_control, control, interrupts, stdout, stderr):
        self._send = send
        self._before_control = before_control
        self._control = control
        self._interrupts = interrupts
        self._pipes = {"stdout": stdout, "stderr": stderr}
        self.window = _WINDOW
        self._turn = 0  # bytes of control that are to be read next
        self._owed = {}  # bytes of each pipe that are to be read before them
        self._given = bytearray()  # for the session
        self._taken = 0  # bytes that the session has taken and the host does not know of

    @classmethod
    def make(cls, send, before_control):
        """The wires, and the descriptors of the session's ends."""
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        control.setblocking(False)
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        (interrupts_read, interrupts), (stdout, stdout_write), (stderr, stderr_write) = pipes
        for fd in (interrupts_read, interrupts, stdout, stderr):
            os.set_blocking(fd, False)
        wires = cls(send, before_control, control, interrupts, stdout, stderr)
        return wires, [theirs.detach(), interrupts_read, stdout_write, stderr_write]

    def interrupt(self, cell):
        try:
            os.write(self._interrupts, cell.to_bytes(4, "little"))
        except OSError:
            pass  # full: many were there before; or nobody is left who reads it

    def give(self, data):
        """Bytes for the session's control socket."""
        self._given += data
        self._write()

    def add_interests(self, wanted):
        control = select.POLLOUT if self._given else 0
        if self.window:
            control |= select.POLLIN
            for fd in self._pipes.values():
                wanted[fd] = select.POLLIN
        if control and self._control is not None:
            wanted[self._control.fileno()] = control

    def move(self, ready):
        """Takes what is there, and gives what is taken."""
        if self._control is not None and ready.get(self._control.fileno(), 0) & ~select.POLLOUT:
            self._read_control()
        else:
            for name, fd in list(self._pipes.items()):
                if fd in ready:
                    self._read_pipe(name, _PIECE)
        if self._given:
            self._write()

    def drain(self):
        """Takes all that is there, as far as the window goes: who said it has ended."""
        while self._read_control():
            pass
        for name in list(self._pipes):
            while self._read_pipe(name, _PIECE):
                pass

    def _read_control(self):
        """Whether some was read. What was printed before a report must come before it, so the
        pipes are emptied first; what comes to the socket meanwhile is left for the next time."""
        if self._control is None or not self.window:
            return False
        if not self._turn:
            self._turn = _readable(self._control.fileno()) or 1  # or its end
            self._owed = {name: _readable(fd) for name, fd in self._pipes.items()}
        for name in self._owed:
            while self._owed[name] > 0:
                if not self._read_pipe(name, min(_PIECE, self._owed[name])):
                    break
        if not self.window:
            return False
        try:
            data = self._control.recv(min(self._turn, _PIECE, self.window))
        except BlockingIOError:
            self._turn = 0
            return False
        except OSError:
            data = b""
        self._turn = 0
        if data:
            self._before_control()
            self.window -= len(data)
        else:
            self._control.close()
            self._control = None
            self._write()
        self._send({"type": "control"}, data)
        return bool(data)

    def _read_pipe(self, name, most):
        """Whether some was read."""
        size = min(most, self.window)
        if not size or name not in self._pipes:
            return False
        try:
            data = os.read(self._pipes[name], size)
        except BlockingIOError:
            return False
        if not data:
            os.close(self._pipes.pop(name))
            return False
        if self._turn:
            self._owed[name] -= len(data)
        self.window -= len(data)
        self._send({"type": name}, data)
        return True

    def _write(self):
        done = len(self._given)
        if self._control is not None and self._given:
            try:
                done = self._control.send(self._given)
            except BlockingIOError:
                return
            except OSError:
                pass  # nobody is left who would take it
        del self._given[:done]
        self._taken += done
        if self._taken and (not self._given or self._taken >= _CREDIT_STEP):
            self._send({"type": "credit", "bytes": self._taken})
            self._taken = 0


def _readable(fd):
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"), "little")
