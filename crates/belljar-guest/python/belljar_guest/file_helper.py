"""The file helper: a child of the steward that has become the session's user, and reaches files for the host.

Code of the session is the same user and may change every directory at any moment. So each part of a
path is opened by itself, relative to the one before, and never through a link; and nothing is
opened that could make this process wait.
"""

from belljar_guest import BUILTINS as __builtins__

import errno
import os
import socket
import stat

from belljar_guest import walls
from belljar_guest.container import Room
from belljar_guest.wire import frame_lengths, from_json, to_json, unpack_lengths

_ROOTS = ("/workspace", "/tmp")
_ANY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_PATH = 4000
_MAX_READ = 1 << 20
_MAX_LISTED = 1 << 20  # bytes of paths
_MOST_REMOVED = 100_000
_MOST_LEVELS = 64
_MOST_LISTED_LEVELS = 256  # one descriptor and some frames of the stack for each
_NO_DIRECTORY = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EXDEV)


def run(fd, uid, gid, filters):
    """Serves until the steward ends, or the session ends this."""
    channel = socket.socket(fileno=walls.become_helper(fd, uid, gid, filters))
    helper = Helper()
    while True:
        head, blob = unpack_lengths(_exactly(channel, 8))
        request = from_json(_exactly(channel, head))
        answer, data = helper.answer(request, _exactly(channel, blob))
        head = to_json({"type": "file", "id": request["id"], **answer})
        channel.sendall(frame_lengths(len(head), len(data)) + head + data)


def _exactly(channel, size):
    data = bytearray(size)
    view = memoryview(data)
    while view:
        read = channel.recv_into(view)
        if not read:
            os._exit(0)
        view = view[read:]
    return bytes(data)


class Helper:
    """What it can be asked for, and the file that is being written."""

    def __init__(self):
        self.new = None
        self.failed = 0  # why the last file that was begun can't be kept
        self.room = Room()

    def answer(self, request, blob):
        """The header of the answer without its first fields, and its raw bytes."""
        try:
            operation = getattr(self, "do_" + request["op"], None)
            if operation is None or request.get("root", _ROOTS[0]) not in _ROOTS:
                raise OSError(errno.EINVAL, "not understood")
            found = operation(request, blob) if request["op"] == "data" else operation(request)
            return found or {}, (found or {}).pop("blob", b"")
        except OSError as error:
            return {"errno": error.errno}, b""
        except (KeyError, TypeError, ValueError, OverflowError):
            return {"errno": errno.EINVAL}, b""

    def do_list(self, request):
        entries, more = _list(request)
        return {"entries": entries, "more": more}

    def do_stat(self, request):
        with _Parent(request, "path", empty=True) as (parent, name):
            found = os.stat(name, dir_fd=parent, follow_symlinks=False) if name else os.fstat(parent)
        kind, size = _kind_and_size(found)
        return {
            "kind": kind,
            "size": size,
            "mode": stat.S_IMODE(found.st_mode),
            "modified": found.st_mtime,
        }

    def do_read_link(self, request):
        with _Parent(request, "path", empty=True) as (parent, name):
            try:
                return {"target": os.readlink(name, dir_fd=parent).decode() if name else None}
            except UnicodeDecodeError:
                return {"target": None}
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                return {"target": None}

    def do_read(self, request):
        with _Parent(request, "path") as (parent, name):
            try:
                file = os.open(name, _ANY, dir_fd=parent)
            except OSError as error:
                # A socket.
                raise OSError(errno.EINVAL if error.errno == errno.ENXIO else error.errno, "") from None
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL, "")
            data = os.pread(file, min(request["bytes"], _MAX_READ), request["offset"])
        finally:
            os.close(file)
        return {"size": found.st_size, "mode": stat.S_IMODE(found.st_mode), "blob": data}

    def do_remove(self, request):
        with _Parent(request, "path") as (parent, name):
            _unlink(parent, name)

    def do_remove_all(self, request):
        with _Parent(request, "path") as (parent, name):
            _remove_tree(parent, name, _MOST_LEVELS, [_MOST_REMOVED])

    def do_directory(self, request):
        try:
            os.close(_make_directories(_open_root(request), _parts(request["path"])))
        except OSError as error:
            raise OSError(errno.EEXIST if error.errno in _NO_DIRECTORY else error.errno, "") from None

    def do_rename(self, request):
        with _Parent(request, "from") as (parent, name), _Parent(request, "to", make=True) as (other, new):
            try:
                os.rename(name, new, src_dir_fd=parent, dst_dir_fd=other)
            except OSError as error:
                # Only a file replaces a file, and a directory an empty one.
                there = (errno.EEXIST, errno.ENOTEMPTY, errno.EISDIR, errno.ENOTDIR)
                raise OSError(errno.EEXIST if error.errno in there else error.errno, "") from None

    def do_begin(self, request):
        self.do_abandon(request)
        try:
            self.new = _NewFile(request)
        except OSError as error:
            self.failed = error.errno
            raise

    def do_data(self, request, blob):
        self._check()
        try:
            if not self.room.has(len(blob) + self.new.reserve):
                raise OSError(errno.ENOMEM, "no memory is left")
            self.new.write(blob)
        except OSError as error:
            self.do_abandon(None)
            self.failed = error.errno
            raise

    def do_keep(self, request):
        self._check()
        new, self.new = self.new, None
        new.keep()

    def do_abandon(self, request):
        self.failed = 0
        if self.new is not None:
            new, self.new = self.new, None
            new.remove()

    def _check(self):
        if self.new is None:
            raise OSError(self.failed or errno.EINVAL, "no file was begun")


class _NewFile:
    """A file that is being written, under a name of its own beside its place."""

    def __init__(self, request):
        self.reserve = int(request.get("reserve", 0))  # bytes of memory that are to be left
        self.parent, self.name = _open_parent(request, request["path"], True)
        # A name that code of the session can't have planted as a link.
        self.temporary = b".belljar-put-" + os.urandom(8).hex().encode()
        try:
            self._refuse_other_kinds()
            self.file = os.open(self.temporary, _NEW, 0o644, dir_fd=self.parent)
        except BaseException:
            os.close(self.parent)
            raise
        try:
            os.fchmod(self.file, 0o755 if request.get("executable") else 0o644)
        except BaseException:
            self.remove()
            raise

    def _refuse_other_kinds(self):
        try:
            found = os.stat(self.name, dir_fd=self.parent, follow_symlinks=False)
        except OSError:
            return
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.ELOOP, "not a regular file")

    def write(self, data):
        view = memoryview(data)
        while view:
            view = view[os.write(self.file, view) :]

    def keep(self):
        try:
            os.rename(self.temporary, self.name, src_dir_fd=self.parent, dst_dir_fd=self.parent)
        finally:
            self.remove()

    def remove(self):
        """There is none where it was kept."""
        try:
            os.unlink(self.temporary, dir_fd=self.parent)
        except OSError:
            pass
        os.close(self.file)
        os.close(self.parent)


class _Parent:
    """The directory in which the last part of a path is, and that part: none for the root itself."""

    def __init__(self, request, field, empty=False, make=False):
        self.request = request
        self.path = request[field]
        self.empty = empty
        self.make = make

    def __enter__(self):
        if self.empty and self.path == "":
            self.directory, name = _open_root(self.request), None
        else:
            self.directory, name = _open_parent(self.request, self.path, self.make)
        return self.directory, name

    def __exit__(self, *error):
        os.close(self.directory)


def _parts(path):
    if not isinstance(path, str):
        raise TypeError("a path is text")
    data = path.encode()
    parts = data.split(b"/")
    if len(data) > _MAX_PATH or b"\0" in data or any(part in (b"", b".", b"..") for part in parts):
        raise OSError(errno.EINVAL, "not a path inside")
    return parts


def _open_root(request):
    return _open_directory(request.get("root", _ROOTS[0]), None)


def _open_parent(request, path, make=False):
    *parents, name = _parts(path)
    root = _open_root(request)
    return (_make_directories if make else _open_directories)(root, parents), name


def _open_directory(name, parent):
    # Not with O_DIRECTORY: gVisor then follows a link, whatever else is said.
    directory = os.open(name, _ANY, dir_fd=parent)
    if not stat.S_ISDIR(os.fstat(directory).st_mode):
        os.close(directory)
        raise NotADirectoryError(errno.ENOTDIR, "not a directory")
    return directory


def _open_directories(directory, parts):
    """Takes the descriptor of a directory, and gives that of one beneath it."""
    for part in parts:
        try:
            deeper = _open_directory(part, directory)
        finally:
            os.close(directory)
        directory = deeper
    return directory


def _make_directories(directory, parts):
    for part in parts:
        try:
            os.mkdir(part, 0o755, dir_fd=directory)
        except FileExistsError:
            pass
        except BaseException:
            os.close(directory)
            raise
        directory = _open_directories(directory, [part])
    return directory


def _kind_and_size(found):
    if stat.S_ISREG(found.st_mode):
        return "file", found.st_size
    return ("directory" if stat.S_ISDIR(found.st_mode) else "other"), 0


def _list(request):
    """The entries beneath a directory, and whether there were more."""
    path, limit = request["path"], request["limit"]
    listing = _Listing(limit)
    directory = _open_directories(_open_root(request), [] if path == "" else _parts(path))
    try:
        listing.add(directory, path, _MOST_LISTED_LEVELS)
    finally:
        os.close(directory)
    return sorted(listing.entries), listing.more


class _Listing:
    def __init__(self, limit):
        self.limit = limit
        self.bytes = 0
        self.entries = []
        self.more = False

    def add(self, directory, path, levels):
        deeper = []
        with os.scandir(directory) as found:
            for entry in found:
                if len(self.entries) >= self.limit or self.bytes > _MAX_LISTED:
                    self.more = True
                    return
                name = os.fsencode(entry.name)
                try:
                    kind, size = _kind_and_size(os.stat(name, dir_fd=directory, follow_symlinks=False))
                except OSError:
                    continue  # removed meanwhile
                shown = name.decode("utf-8", "replace")
                full = f"{path}/{shown}" if path else shown
                length = len(full.encode())
                if kind == "directory" and length < _MAX_PATH and shown.encode() == name:
                    deeper.append((name, full))
                self.bytes += length
                self.entries.append((full, kind, size))
        for name, full in deeper:
            if levels == 0:
                self.more = True
                return
            try:
                inner = _open_directory(name, directory)
            except OSError:
                continue  # removed meanwhile, replaced by a link, or closed to all
            try:
                self.add(inner, full, levels - 1)
            finally:
                os.close(inner)
            if self.more:
                return


def _unlink(parent, name):
    try:
        os.unlink(name, dir_fd=parent)
    except IsADirectoryError:
        os.rmdir(name, dir_fd=parent)


def _remove_tree(parent, name, levels, attempts):
    """Removes an entry with all that is in it. What takes its place meanwhile is removed, never followed."""
    while True:
        attempts[0] -= 1
        if attempts[0] < 0:
            raise OSError(errno.ENOTEMPTY, "some is left")
        try:
            _unlink(parent, name)
            return
        except OSError as error:
            if error.errno == errno.ENOTDIR:
                continue  # it was another kind of thing a moment ago
            if error.errno != errno.ENOTEMPTY:
                raise
        try:
            directory = _open_directory(name, parent)
        except OSError as error:
            if error.errno in (errno.ENOENT, *_NO_DIRECTORY):
                continue
            raise
        try:
            if levels == 1:
                raise OSError(errno.ENAMETOOLONG, "too deep")
            with os.scandir(directory) as found:
                for entry in found:
                    try:
                        _remove_tree(directory, os.fsencode(entry.name), levels - 1, attempts)
                    except FileNotFoundError:
                        pass
        finally:
            os.close(directory)
