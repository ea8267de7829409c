"""Checkpoints of a session, made by fork: one of them becomes the session when it dies.

A checkpoint is the grandchild of the session, so that it is no child that the user's code could
wait for; init adopts it. It is suspended until the host wakes it, and then continues where it was made.
"""

from belljar_guest import BUILTINS as __builtins__

import _signal
import _thread
import os
import socket
import stat
import sys

from belljar_guest import blas
from belljar_guest.state import STATE
from belljar_guest.wire import renew

_fork = os.fork
_pipe2 = os.pipe2
_read = os.read
_write = os.write
_close = os.close
_exit = os._exit
_getpid = os.getpid
_setsid = os.setsid
_waitpid = os.waitpid
_listdir = os.listdir
_open = os.open
_dup2 = os.dup2
_fstat = os.fstat
_get_inheritable = os.get_inheritable
_Socket = socket.socket
_INTERNET = (socket.AF_INET, socket.AF_INET6)
_set_blocking = os.set_blocking
_get_ident = _thread.get_ident
_sigmask = _signal.pthread_sigmask
_sigwaitinfo = _signal.sigwaitinfo
_SIG_SETMASK = _signal.SIG_SETMASK
_ALL = _signal.valid_signals()
_WAKE = frozenset((_signal.SIGUSR2,))
_SI_USER = 0
# Of a session in a container, so that the kernel ends it before its checkpoints and the steward.
MEMORY_SCORE = b"500"
_modules = sys.modules


def keep():
    """Makes a checkpoint.

    In the session: the checkpoint's process id, or 0 if it could not be made. In the checkpoint,
    once it is woken: None.
    """
    randomness = _randomness()
    begun = begin()
    if begun is None:
        return 0
    try:
        checkpoint = orphan()
        if checkpoint is None:
            _let_connections_go()
            _wait_as_checkpoint(randomness)
        return checkpoint
    finally:
        end(begun)


def begin():
    """Before a process is made that continues as this session, or as another: no signal comes
    between. None if none can be made now."""
    held = blas.hold()
    if held is None:
        return None
    STATE.checkpointing = True
    return held, _sigmask(_SIG_SETMASK, _ALL)


def end(begun):
    held, mask = begun
    STATE.checkpointing = False
    _sigmask(_SIG_SETMASK, mask)
    blas.release(held)


def orphan():
    """Forks a process that is init's child: its id, or 0 if it could not be made; None in it."""
    read, write = _pipe2(os.O_CLOEXEC)
    try:
        middle = _fork()
    except OSError:
        _close(read)
        _close(write)
        return 0
    if middle:
        _close(write)
        try:
            told = _read(read, 8)
        finally:
            _close(read)
        reap(middle)
        return int.from_bytes(told, "little")
    try:
        child = _fork()
    except OSError:
        _exit(0)
    if child:
        try:
            _write(write, child.to_bytes(8, "little"))
        finally:
            _exit(0)
    _close(read)
    _close(write)
    # Signals to the session's process group are not for it.
    _setsid()
    return None


def take_over():
    """This process is the session from now on."""
    STATE.pid = _getpid()
    STATE.thread = _get_ident()
    renew()


def _let_connections_go():
    """Connections end when the session closes them: a copy here would hold them open. They fail in this process."""
    try:
        nothing = _open("/", os.O_PATH | os.O_CLOEXEC)
        for name in _listdir("/proc/self/fd"):
            if _is_connection(int(name)):
                _dup2(nothing, int(name), _get_inheritable(int(name)))
        _close(nothing)
    except OSError:
        pass  # no descriptor is left


def _is_connection(fd):
    try:
        if not stat.S_ISSOCK(_fstat(fd).st_mode):
            return False
        here = _Socket(fileno=fd)
    except OSError:
        return False  # the one that the list was read through
    try:
        here.getpeername()
        return here.family in _INTERNET
    except OSError:
        return False  # it listens, or is not connected
    finally:
        here.detach()


def _wait_as_checkpoint(randomness):
    if STATE.steward:
        set_memory_score(b"0")  # of an interpreter and its checkpoints the kernel ends the interpreter
    while True:
        # From outside of the pid namespace, by kill: nobody in here can send such a one. Nor can
        # any code of a container's session be process 1.
        signal = _sigwaitinfo(_WAKE)
        if signal.si_code == _SI_USER and (signal.si_pid == 0 or STATE.steward and signal.si_pid == 1):
            break
    if STATE.steward:
        set_memory_score(MEMORY_SCORE)
    take_over()
    # What the host had said to the one before, and that did not read to the end of it.
    _drain(STATE.control)
    if randomness is not None:
        _modules["random"].setstate(randomness)


def set_memory_score(score):
    try:
        file = _open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        _write(file, score)
        _close(file)
    except OSError:
        pass  # no descriptor is left


def reap(pid):
    while True:
        try:
            _waitpid(pid, 0)
            return
        except InterruptedError:
            pass
        except ChildProcessError:
            return  # the user's code ignores SIGCHLD


def _drain(fd):
    _set_blocking(fd, False)
    try:
        while _read(fd, 65536):
            pass
    except BlockingIOError:
        pass
    _set_blocking(fd, True)


def _randomness():
    """The state of the random numbers: a fork reseeds them, and a checkpoint continues with them."""
    random = _modules.get("random")
    try:
        return None if random is None else random.getstate()
    except Exception:
        return None


def lacks():
    """How many threads and child processes a checkpoint made now would lack."""
    threads = processes = 0
    try:
        tasks = _listdir("/proc/self/task")
        threads = len(tasks) - 1
        if threads:
            threads -= blas.workers()  # a checkpoint starts its own
        for task in tasks:
            with open(f"/proc/self/task/{task}/children") as file:
                processes += len(file.read().split())
    except OSError:
        pass
    return {"threads": threads, "processes": processes}
