"""The template: a warmed process that forks sessions for the host.

It talks over a SOCK_SEQPACKET socket: JSON messages, descriptors beside them. It runs no user code
but the imports of the environment's packages, and has one thread.
"""

from belljar_guest import BUILTINS as __builtins__

import json
import os
import platform
import select
import signal
import socket
import sys
import time
import traceback

from belljar_guest import bare, session, sharing, walls, warm

_MAX_MESSAGE = 64 << 10
_MAX_FDS = 32

# When memory is made cheap to share: after so many milliseconds without a request, or so many forks.
_IDLE_MS = 300
_MANY_FORKS = 32
# What the interpreter's heap is expected to need; what it doesn't is given back.
_HEAP_MIB = 64
# Where the imports took longer than this, it would keep sessions waiting for too long.
_SLOW_SECONDS = 5


def main(fd=3):
    """Serves until the host closes its end."""
    # Where the driver was found: no name of a session's is looked up there, and it is nobody's
    # argument.
    del sys.path[0], sys.argv[1:]
    Template(fd).serve()


class Template:
    """The fork server."""

    def __init__(self, fd):
        self.sock = socket.socket(fileno=fd)
        self.sock.set_inheritable(False)
        try:
            os.set_inheritable(walls.EMPTY_NAMESPACE, False)
        except OSError:
            pass  # there is none where there are no walls
        self.children = {}  # pid -> id of the session
        self.forks_until_shared = None  # once warm
        self.wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda signum, frame: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        # To go back to after `setns`, so that no dead session's namespace is kept alive.
        try:
            self.own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.own_pid_namespace = None  # gVisor has none, and nobody asks for a fork there

    def serve(self):
        poll = select.poll()
        poll.register(self.sock.fileno(), select.POLLIN)
        poll.register(self.wake, select.POLLIN)
        while True:
            shares = self.forks_until_shared is not None
            ready = [fd for fd, _ in poll.poll(_IDLE_MS if shares else None)]
            if shares and (not ready or self.forks_until_shared <= 0):
                self._share()
            if self.wake in ready:
                self._drain()
                self._reap()
            if self.sock.fileno() in ready:
                self._receive()

    def _receive(self):
        data, fds, _, _ = socket.recv_fds(
            self.sock, _MAX_MESSAGE, _MAX_FDS, socket.MSG_CMSG_CLOEXEC
        )
        if not data:
            os._exit(0)
        request = {}
        try:
            request = json.loads(data)
            operation = request["op"]
            if operation == "fork":
                self._fork(request, fds)
            elif operation == "become":
                # In a container, which has one session: no template is left.
                self._become_session(walls.inhabit, "/workspace", *fds, request)
            elif operation == "warm":
                self._warm(request)
            elif operation == "ping":
                self._send({"event": "pong"})
            elif operation == "bare":
                self._bare(request, fds)
            else:
                raise ValueError(f"unknown op {operation!r}")
        except Exception as error:
            # One bad request is no reason for the template to die.
            self._send(
                {
                    "event": "fork_failed",
                    "id": request.get("id") if isinstance(request, dict) else None,
                    "error": f"{type(error).__name__}: {error}",
                }
            )
        finally:
            for fd in fds:
                os.close(fd)

    def _send(self, message, fds=()):
        data = json.dumps(message).encode()[:_MAX_MESSAGE]
        try:
            if fds:
                socket.send_fds(self.sock, [data], fds)
            else:
                self.sock.send(data)
        except (BrokenPipeError, ConnectionError):
            os._exit(0)

    def _warm(self, request):
        share, start = request.get("share", False), time.monotonic()
        held = sharing.reserve(_HEAP_MIB) if share else None
        failed, import_ms = warm.warm(
            request.get("preload", []), request.get("fonts", []), request.get("threads")
        )
        del held
        if share:
            sharing.merge_areas()
        walls.expect(request.get("variables", {}))
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the rehearsal took it
        threads, data = warm.status()
        self._send(
            {
                "event": "warm",
                "python": platform.python_version(),
                "threads": threads,
                "data_bytes": data,
                "failed": failed,
                "import_ms": import_ms,
            }
        )
        if share and time.monotonic() - start < _SLOW_SECONDS:
            self.forks_until_shared = _MANY_FORKS
        elif share:
            self._send({"event": "shared"})

    def _share(self):
        self.forks_until_shared = None
        try:
            sharing.share()
        except OSError:
            pass  # no descriptor or no memory is left: what is shared is shared
        self._send({"event": "shared"})

    def _fork(self, request, fds):
        identity = request["id"]
        if self.forks_until_shared is not None:
            self.forks_until_shared -= 1
        if "workspace" in request:
            # --walls=none
            pid = os.fork()
            if pid == 0:
                self._become_session(walls.stay, request["workspace"], *fds, request)
        else:
            pid = self._fork_behind_walls(request, fds)
        self.children[pid] = identity
        pidfd = os.pidfd_open(pid)
        try:
            self._send({"event": "forked", "id": identity, "pid": pid}, [pidfd])
        finally:
            os.close(pidfd)

    def _fork_behind_walls(self, request, fds):
        pid_namespace, *fds = fds
        namespaces, fds = fds[:5], fds[5:]
        rules, control, interrupts, stdout, stderr, *cgroups = fds
        try:
            walls.setns(pid_namespace, walls.CLONE_NEWPID)
        except OSError as error:
            raise RuntimeError(f"joining the pid namespace: {error}") from error
        try:
            pid = os.fork()
            if pid == 0:
                self._become_session(
                    walls.enter,
                    "/workspace",
                    namespaces,
                    rules,
                    control,
                    interrupts,
                    stdout,
                    stderr,
                    cgroups,
                    request,
                )
            return pid
        finally:
            walls.setns(self.own_pid_namespace, walls.CLONE_NEWPID)

    def _become_session(self, entrance, workspace, *entry):
        """Never returns."""
        try:
            self.sock.detach()  # descriptor 3 gets another meaning; nobody may close it
            entrance(workspace, *entry)
            session.serve(workspace=workspace, checkpoints=entry[-1]["checkpoints"])
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(72)

    def _bare(self, request, fds):
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            bare.run(fds[0])
        self.children[pid] = None

    def _drain(self):
        try:
            while os.read(self.wake, 4096):
                pass
        except BlockingIOError:
            pass

    def _reap(self):
        while self.children:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            identity = self.children.pop(pid, None)
            if identity is not None:
                self._send({"event": "exited", "id": identity, "status": status})
