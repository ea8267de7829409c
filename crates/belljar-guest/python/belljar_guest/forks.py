"""Forks of a session: new sessions that start as copies of this one, on wires of their own.

A fork stays in the namespaces of its parent session. Its own are: the process, the cgroups, the
wires, a workspace in its fork slot, and Landlock rules by which it reaches neither that session nor
its other forks.
"""

from belljar_guest import BUILTINS as __builtins__

import array
import errno
import fcntl
import os
import socket
import stat
import sys

from belljar_guest.artifacts import Workspace
from belljar_guest.checkpoints import begin, end, orphan, take_over
from belljar_guest.reseed import reseed
from belljar_guest.state import STATE
from belljar_guest.variables import remove
from belljar_guest.walls import fault, restrict
from belljar_guest.wire import frame_lengths, from_json, send, to_json

_Socket = socket.socket
_SPACE = socket.CMSG_SPACE(20 * 4)
_array = array.array
_fcntl = fcntl.fcntl
_open = os.open
_close = os.close
_dup2 = os.dup2
_read = os.read
_write = os.write
_exit = os._exit
_listdir = os.listdir
_scandir = os.scandir
_readlink = os.readlink
_symlink = os.symlink
_mkdir = os.mkdir
_stat = os.stat
_chmod = os.chmod
_fstat = os.fstat
_lseek = os.lseek
_fchmod = os.fchmod
_utime = os.utime
_ftruncate = os.ftruncate
_sendfile = os.sendfile
_getcwd = os.getcwd
_chdir = os.chdir
_get_inheritable = os.get_inheritable
_path = sys.path

_OPEN_MODE = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK
# Where the first of our own descriptors is put while the others are looked through.
_ABOVE = 512


def fork(session, count, withheld):
    """Makes forks on the descriptors that the host sends. None in the session itself; in a fork the
    host's message about it. Forks do not get the withheld variables."""
    send({"type": "forking"})
    made = 0
    for _ in range(count):
        setup, fds = _receive()
        process = 0
        try:
            begun = begin()
            if begun is None:
                continue
            try:
                process = orphan()
                if process is None:
                    take_over()
                    remove(withheld)
                    _become_fork(session, setup, fds)
                    return setup
            finally:
                end(begun)
        finally:
            if process is not None:
                for fd in fds:
                    _close(fd)
        made += bool(process)
    send({"type": "forks_made", "made": made})
    return None


def _receive():
    """The host's next message on the channel, and the descriptors that came with it."""
    channel = _Socket(fileno=STATE.control)
    try:
        data, ancillary, _, _ = channel.recvmsg(65536, _SPACE)
    finally:
        channel.detach()
    if not data:
        _exit(0)
    fds = _array("i")
    for _, _, packed in ancillary:
        fds.frombytes(packed)
    return from_json(data), list(fds)


def _become_fork(session, setup, fds):
    """In the fork. Any failure is reported and ends it: it never runs with a wall missing."""
    control = fds[0]
    step = "descriptors"
    try:
        # Out of the way of those that have a fixed place.
        above = [_fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for fd in fds]
        for fd in fds:
            _close(fd)
        control, interrupts, stdout, stderr, rules = above
        step = "cgroups"
        # The host has it moved. What it uses from then on is its own.
        head = to_json({"type": "forked", "pid": STATE.pid})
        _write(control, frame_lengths(len(head), 0) + head)
        if not _read(control, 1):
            _exit(0)
        step = "copy the workspace"
        old, new = session.workspace.root, setup["workspace"]
        _copy(old, new)
        step = "open files"
        directory = _moved(_working_directory(), old, new)
        _let_go(old, new, above)
        step = "Landlock"
        restrict(rules)
        step = "wires"
        _dup2(stdout, 1)
        _dup2(stderr, 2)
        _dup2(control, STATE.control, False)
        _dup2(interrupts, STATE.interrupts, False)
        for fd in above:
            _close(fd)
        control = STATE.control
        step = "workspace"
        _begin_in(session, directory, old, new)
        STATE.nonce = setup["nonce"] if STATE.cell else ""
        STATE.early = 0
        reseed()
        send({"type": "ready"})
    except BaseException as error:
        fault(control, f"{step}: {type(error).__name__}: {error}")


def _begin_in(session, directory, old, new):
    try:
        _chdir(directory)
    except OSError:
        _chdir(new)  # it worked in one that is not its own, or that is gone
    for at, path in enumerate(_path):
        if path == old:
            _path[at] = new
    session.workspace = Workspace(new)
    session.namespaces.move(lambda path: _moved(path, old, new), new)


def _working_directory():
    try:
        return _getcwd()
    except OSError:
        return ""


def _moved(path, old, new):
    """Where the copy of a file is, for one of the old workspace."""
    return new + path[len(old) :] if path == old or path.startswith(old + "/") else path


def _copy(old, new):
    """Copies directories, files and links, with their times and modes; nothing else can be copied.
    What may not be read is an error: a fork that lacks a file without a word would be worse."""
    made = [(new, _stat(old))]
    pending = [(old, new)]
    while pending:
        source, target = pending.pop()
        try:
            entries = _scandir(source)
        except FileNotFoundError:
            continue  # threads and child processes of the session keep running, and may remove it
        with entries:
            for entry in entries:
                there = target + "/" + entry.name
                try:
                    if entry.is_symlink():
                        _symlink(_moved(_readlink(entry.path), old, new), there)
                    elif entry.is_dir():
                        status = entry.stat()
                        _mkdir(there, 0o700)
                        made.append((there, status))
                        pending.append((entry.path, there))
                    elif entry.is_file():
                        _copy_file(entry.path, there)
                except FileNotFoundError:
                    continue  # the same
    # The innermost first: nothing can be made in a directory that may only be read.
    for there, status in reversed(made):
        _chmod(there, stat.S_IMODE(status.st_mode))
        _utime(there, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_file(source, target):
    # Should it have become a pipe meanwhile, nobody waits for its other end.
    here = _open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = _fstat(here)
        there = _open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _ftruncate(there, status.st_size)
            at = 0
            # What is a hole stays one: it takes no memory.
            while (at := _next(here, at, os.SEEK_DATA)) < status.st_size:
                _lseek(there, at, os.SEEK_SET)
                hole = min(_next(here, at, os.SEEK_HOLE), status.st_size)
                while at < hole:
                    sent = _sendfile(there, here, at, hole - at)
                    if not sent:
                        break
                    at += sent
            _fchmod(there, stat.S_IMODE(status.st_mode))
            _utime(there, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            _close(there)
    finally:
        _close(here)


def _next(fd, at, what):
    """Where the next data, or the next hole, begins."""
    try:
        return _lseek(fd, at, what)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return 1 << 62  # the file has none after this place, or is shorter meanwhile


def _let_go(old, new, kept):
    """Files are opened anew, those of the workspace in the copy, so that no position is shared.
    Sockets, pipes and other ways to the session that it comes from fail from now on."""
    nothing = _open("/", os.O_PATH | os.O_CLOEXEC)
    keep = {0, 1, 2, STATE.control, STATE.interrupts, nothing, *kept}
    for name in _listdir("/proc/self/fd"):
        fd = int(name)
        if fd in keep:
            continue
        try:
            status = _fstat(fd)
        except OSError:
            continue  # the one that the list was read through
        if stat.S_ISCHR(status.st_mode):
            continue
        inheritable = _get_inheritable(fd)
        again = _open_again(fd, status, old, new)
        _dup2(nothing if again is None else again, fd, inheritable)
        if again is not None:
            _close(again)
    _close(nothing)


def _open_again(fd, status, old, new):
    """The file of a descriptor, opened by its name; None if that is not the same file, or none."""
    kind = stat.S_IFMT(status.st_mode)
    if kind not in (stat.S_IFREG, stat.S_IFDIR):
        return None
    path = _readlink(f"/proc/self/fd/{fd}")
    there = _moved(path, old, new)
    again = None
    try:
        again = _open(there, _fcntl(fd, fcntl.F_GETFL) & _OPEN_MODE | os.O_CLOEXEC)
        found = _fstat(again)
        same = (found.st_dev, found.st_ino) == (status.st_dev, status.st_ino)
        if there == path and not same:
            raise OSError
        if kind == stat.S_IFREG:
            _lseek(again, _lseek(fd, 0, os.SEEK_CUR), os.SEEK_SET)
        return again
    except OSError:
        if again is not None:
            _close(again)
        return None
