"""The steward's side of the file helper: starts it, and passes frames to and from it unread."""

from belljar_guest import BUILTINS as __builtins__

import errno
import os
import _signal
import select
import socket
import sys

from belljar_guest.wire import unpack_lengths

_READ = 64 << 10


class FileRequests:
    """Requests for files of the session, in the order in which they came."""

    def __init__(self, send, send_raw):
        self._send = send
        self._send_raw = send_raw
        self.become = None  # user, group, and whether under a filter; none before the session is there
        self.pid = 0
        self._socket = None
        self._asked = bytearray()  # not yet taken by the helper
        self._answers = bytearray()  # not yet a whole frame
        self._waiting = []  # ids of requests without an answer

    def ask(self, identity, frame):
        if self._socket is None:
            try:
                self._begin()
            except OSError as error:
                # As many processes as there may be, most likely.
                self._refuse(identity, error.errno)
                return
        self._waiting.append(identity)
        self._asked += frame
        self._write()

    def add_interests(self, wanted, may_read):
        if self._socket is not None:
            events = (select.POLLIN if may_read else 0) | (select.POLLOUT if self._asked else 0)
            if events:
                wanted[self._socket.fileno()] = events

    def move(self, ready):
        events = 0 if self._socket is None else ready.get(self._socket.fileno(), 0)
        if events & ~select.POLLOUT:
            self._read()
        if self._socket is not None and self._asked:
            self._write()

    def _begin(self):
        if self.become is None:
            raise OSError(errno.EIO, "there is no session yet")
        ours, theirs = socket.socketpair()
        try:
            self.pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if self.pid == 0:
            try:
                # Not before: of the steward's process only this child needs what it loads.
                from belljar_guest import file_helper

                file_helper.run(theirs.detach(), *self.become)
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(70)
        theirs.close()
        ours.setblocking(False)
        self._socket = ours

    def _write(self):
        try:
            while self._asked:
                del self._asked[: self._socket.send(self._asked)]
        except BlockingIOError:
            pass
        except OSError:
            self._end()

    def _read(self):
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        self._answers += data
        while len(self._answers) >= 8:
            end = 8 + sum(unpack_lengths(self._answers))
            if len(self._answers) < end:
                return
            self._send_raw(self._answers[:end])
            del self._answers[:end]
            del self._waiting[:1]

    def _end(self):
        """The helper is gone, by code of the session or for want of memory: the next request has another."""
        self._socket.close()
        self._socket = None
        try:
            os.kill(self.pid, _signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.pid = 0
        for identity in self._waiting:
            self._refuse(identity, errno.EIO)
        for left in (self._waiting, self._asked, self._answers):
            left.clear()

    def _refuse(self, identity, number):
        self._send({"type": "file", "id": identity, "errno": number})
