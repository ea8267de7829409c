"""Saving namespaces as bytes, and binding their names again in another session.

One pickler writes all names, one after the other, so that objects which several names hold are
written once and are one object again after loading. A name that can't be saved is taken back out of
what the pickler remembers, and costs the others nothing.

The bytes are records, one a name: a little-endian u32, a JSON header of that length, the pickle, and
the large buffers (arrays, ...) that it refers to. The host copies them and never looks inside.
"""

from belljar_guest import BUILTINS as __builtins__

import _pickle
import builtins
import importlib
import io
import mmap
import os
import struct
import sys
import threading
import time
import types

from belljar_guest import errors
from belljar_guest.checkpoints import lacks
from belljar_guest.names import type_name
from belljar_guest.namespaces import MAIN
from belljar_guest.state import Overtime, limited
from belljar_guest.wire import MAX_BLOB, from_json, send, send_views, to_json

_import_module = importlib.import_module
_mmap = mmap.mmap
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_HUGE_PAGES = mmap.MADV_HUGEPAGE
_invalidate_caches = importlib.invalidate_caches
_Pickler = _pickle.Pickler
_Unpickler = _pickle.Unpickler
_PicklingError = _pickle.PicklingError
_FunctionType = types.FunctionType
_ModuleType = types.ModuleType
_exit = os._exit
_getrefcount = sys.getrefcount
_now = time.monotonic
_pack = struct.Struct("<I").pack
_unpack = struct.Struct("<I").unpack

# Tied to the process: cloudpickle would make something else of an open file, and tells of a
# thread only that it has a lock.
_TIED = (io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper)
_TIED += (threading.Thread,)
_PICKLERS = ("cloudpickle", "joblib.externals.cloudpickle")

_PROTOCOL = 5
_PART = 1 << 20  # bytes of a frame
_SMALL_BUFFER = 64 << 10  # smaller ones are written into the pickle
_LARGE = 4 << 20  # memory that is worth huge pages
_SEARCHED = 1 << 20  # bytes that are searched at once
_QUIET = 1.0  # seconds after which the host hears of progress
_MAX_NAMES = 10_000
_MAX_SOURCES = 8 << 20

_REMEMBER = b"\x97\x940"  # NEXT_BUFFER, MEMOIZE, POP
_END = b"N."

_current = []  # the namespaces that functions are loaded into


def the_namespace(name=MAIN):
    """In a pickle: the namespace of this name, of the session that loads it."""
    return _current[0].all[name].names


class _Namespace:
    """Stands for a namespace where a function refers to it."""

    def __init__(self, name):
        self._name = name

    def __reduce__(self):
        return the_namespace, (self._name,)


class _Plain(_Pickler):
    """For environments without cloudpickle: no definitions, modules by name."""

    def reducer_override(self, value):
        if isinstance(value, _ModuleType):
            return _import_module, (value.__name__,)
        if isinstance(value, (type, _FunctionType)) and value.__module__ == "__main__":
            raise _PicklingError(
                f"{value.__qualname__} is defined in a cell; to save it, the environment needs "
                "the package cloudpickle"
            )
        return NotImplemented


def _pickler_class():
    for name in _PICKLERS:
        try:
            return name, limited(10.0, _import_module, name).Pickler
        except (Exception, Overtime):
            pass
    return "pickle", _Plain


class _Sink:
    """Holds one name's bytes until it is pickled whole. Large ones are not copied."""

    def __init__(self, room):
        self.room = room  # bytes that all names may still take
        self.begin()

    def begin(self):
        self.pieces = []
        self.buffers = []
        self.size = 0

    def write(self, data):
        view = memoryview(data)
        self._count(view.nbytes)
        self.pieces.append(view)

    def take_buffer(self, buffer):
        """A large buffer goes beside the pickle; a true answer keeps a small one in it."""
        view = buffer.raw()
        if view.nbytes < _SMALL_BUFFER:
            return True
        self._count(view.nbytes)
        self.buffers.append(view)
        return False

    def _count(self, size):
        self.size += size
        if self.size > self.room:
            raise OverflowError("the snapshot would be over its limit")


class _Saver:
    def __init__(self, namespaces, room, secrets):
        self._secrets = {name: value.encode() for name, value in secrets.items()}
        self._sink = _Sink(room)
        self._stand_ins = {id(one.names): _Namespace(one.name) for one in namespaces}
        self.library, base = _pickler_class()
        self._class = self._make_class(base)
        self._pickler = self._class(None)
        self._parts = []
        self._ready = 0
        self._sent = _now()

    def _make_class(self, base):
        sink, stand_ins = self._sink, self._stand_ins

        class Pickler(base):
            def __init__(self, memo):
                base.__init__(self, sink, _PROTOCOL, buffer_callback=sink.take_buffer)
                # cloudpickle: functions of cells share the namespace that they are loaded into.
                self.globals_ref = dict(stand_ins)
                if memo is not None:
                    self.memo = memo

            def reducer_override(self, value):
                if isinstance(value, _TIED):
                    for name in ("stdin", "stdout", "stderr"):
                        if value is getattr(sys, name):
                            return getattr, (sys, name)
                    raise TypeError(f"cannot pickle {type_name(value)!r} object")
                reduced = base.reducer_override(self, value)
                if (
                    type(value) is _FunctionType
                    and id(value.__globals__) in stand_ins
                    and type(reduced) is tuple
                ):
                    return _without_globals(reduced)
                return reduced

        return Pickler

    def save(self, of, name, value, cell, seconds):
        """Pickles one name; returns its bytes. Whatever is raised, nothing of it is left."""
        value = self._stand_ins.get(id(value), value)
        self._sink.begin()
        # It is remembered before all that it holds, so its number tells what came after it.
        box = [value]
        try:
            limited(seconds, self._pickler.dump, box)
            if self._secrets:
                self._refuse_secrets()
        except BaseException:
            self._forget(box)
            raise
        sink = self._sink
        pieces, buffers, size = sink.pieces, sink.buffers, sink.size
        sink.room -= size
        head = to_json(
            {
                "name": name,
                **of,
                "cell": cell,
                "first": self._number(box),
                "data": sum(view.nbytes for view in pieces),
                "buffers": [[view.nbytes, view.readonly] for view in buffers],
            }
        )
        self._add(_pack(len(head)) + head)
        for view in pieces + buffers:
            self._add(view)
        if _now() - self._sent > _QUIET:
            self.flush()
        return size

    def _refuse_secrets(self):
        for name, value in self._secrets.items():
            if _holds(self._sink.pieces + self._sink.buffers, value):
                raise ValueError(f"it holds the secret `{name}`")

    def _number(self, box):
        """How many objects were remembered before this one: it is now written as that number."""
        self._sink.begin()
        self._pickler.dump(box)
        written = b"".join(self._sink.pieces)
        self._sink.begin()
        # PROTO and its version; BINGET with a byte or LONG_BINGET with four; STOP.
        return int.from_bytes(written[3:-1], "little")

    def _forget(self, box):
        memo = self._pickler.memo.copy()
        first = memo.get(id(box), (len(memo),))[0]
        memo = {key: entry for key, entry in memo.items() if entry[0] < first}
        self._sink.begin()
        self._pickler = self._class(memo)

    def _add(self, data):
        view = memoryview(data).cast("B")
        while len(view):
            taken = view[: _PART - self._ready]
            self._parts.append(taken)
            self._ready += len(taken)
            view = view[len(taken) :]
            if self._ready == _PART:
                self.flush()

    def flush(self):
        parts, self._parts, self._ready = self._parts, [], 0
        self._sent = _now()
        send_views({"type": "saved_part"}, parts)


def _holds(views, value):
    """Whether bytes contain a value, which may be cut at their borders. They are copied piece by piece."""
    rest = b""
    for view in views:
        view = view.cast("B")
        for at in range(0, len(view), _SEARCHED):
            piece = rest + bytes(view[at : at + _SEARCHED])
            if value in piece:
                return True
            rest = piece[1 - len(value) :]
    return False


def _without_globals(reduced):
    """A function's values of global names are left out: the namespace holds them."""
    state = reduced[2] if len(reduced) > 2 else None
    if type(state) is tuple and len(state) == 2 and type(state[1]) is dict:
        if "__globals__" in state[1]:
            state = (state[0], {**state[1], "__globals__": {}})
            return (*reduced[:2], state, *reduced[3:])
    return reduced


def save(session, others, room, name_seconds, seconds, secrets):
    """Answers with the records in parts, and last with what was saved, what was not, and why. What
    holds one of the secrets, by name, is not saved. `others`: namespaces besides the main one."""
    all = session.namespaces.all
    namespaces = [all[name] for name in (MAIN, *others) if name in all]
    saver = _Saver(namespaces, room, secrets)
    end = _now() + seconds
    names = []
    for namespace, name, value in _in_order(namespaces):
        of = {} if namespace.name == MAIN else {"namespace": namespace.name}
        entry = {"name": name, **of, "type": type_name(value)[:100]}
        names.append(entry)
        if len(names) > _MAX_NAMES:
            entry["why"] = f"only {_MAX_NAMES} names are saved"
            break
        left = end - _now()
        if left <= 0:
            entry["why"] = "the time of the whole snapshot was up"
            continue
        try:
            cell = namespace.manifest.cell_of(name)
            entry["bytes"] = saver.save(of, name, value, cell, min(name_seconds, left))
        except BaseException as error:
            entry["why"] = _reason(error)
    saver.flush()
    sources = to_json(_sources())
    if len(sources) > MAX_BLOB:
        sources = b"{}"
    send({"type": "saved", "names": names, "library": saver.library, **lacks()}, sources)


def _in_order(namespaces):
    """Modules, then definitions, then the rest: what others need comes before them."""
    ranked = ([], [], [])
    for namespace in namespaces:
        for name, value in list(namespace.names.items()):
            if type(name) is not str or name.startswith("__") or name == "_":
                continue
            if isinstance(value, _ModuleType):
                rank = 0
            else:
                rank = 1 if isinstance(value, (type, _FunctionType)) else 2
            ranked[rank].append((namespace, name, value))
    return [*ranked[0], *ranked[1], *ranked[2]]


def _sources():
    """Sources of the cells, the newest first as far as there is room."""
    kept = {}
    room = _MAX_SOURCES
    for filename, source in reversed(list(errors.sources().items())):
        room -= len(source)
        if room < 0:
            break
        kept[filename] = source
    return kept


def _reason(error):
    if isinstance(error, Overtime):
        return "it took longer than its time"
    try:
        words = " ".join(str.__str__(limited(1.0, str, error))[:1000].split())
    except BaseException:
        words = "its message can't be shown"
    return f"{type_name(error)[:100]}: {words[:300]}"


class _Buffers:
    """What an unpickler gets when a record asks for the next of its buffers."""

    def __init__(self):
        self.left = iter(())

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.left)


def _memory(size):
    """A view of new memory; in huge pages if it is large: half of the time of a load was page faults."""
    if size < _LARGE:
        return memoryview(bytearray(size))
    memory = _mmap(-1, size, _PRIVATE)
    try:
        memory.madvise(_HUGE_PAGES)
    except OSError:
        pass  # a kernel without them
    return memoryview(memory)


class _Loader:
    """Takes the records in parts, and binds each name when its record is whole."""

    def __init__(self, session, name_seconds, seconds):
        self._namespaces = session.namespaces.all
        self._name_seconds = name_seconds
        self._end = _now() + seconds
        self._told = _now()
        self._buffers = _Buffers()
        self._data = memoryview(b"")
        self._at = 0
        self._unpickler = _Unpickler(self, buffers=self._buffers)
        self._lost = object()  # stands for what a name that failed did not get to make
        self._failed = []  # names that did not come back
        self._broken_at = None  # the number of the first object of the last one, if that failed
        self.names = []
        self._records = self._read()
        self._target = _memory(next(self._records))
        self._filled = 0

    def _recover(self, first):
        """After a failure: an unpickler that remembers what was made, under the same numbers.

        What the name that failed made is lost, since it may be half made. The new one's memo can't
        simply be set: it would count its objects from 0 all the same. So it is fed a pickle that
        takes each of them from the buffers and remembers it.
        """
        memo = self._unpickler.memo.copy()
        made = [memo.get(number, self._lost) for number in range(min(first, self._broken_at))]
        made += [self._lost] * (first - len(made))
        self._unpickler = _Unpickler(self, buffers=self._buffers)
        self._unpickle(_REMEMBER * first + _END, made)
        self._broken_at = None

    def _unpickle(self, data, buffers):
        self._data = memoryview(data)
        self._at = 0
        self._buffers.left = iter(buffers)
        try:
            return self._unpickler.load()
        finally:
            self._buffers.left = iter(())  # holds none of them any longer

    # What an unpickler asks of a file. Not `io.BytesIO`, which would copy the whole.
    def read(self, size):
        taken = self._data[self._at : self._at + size]
        self._at += len(taken)
        return bytes(taken)

    def readline(self):
        end = self._data.obj.find(b"\n", self._at) + 1
        return self.read((end or len(self._data)) - self._at)

    def readinto(self, target):
        taken = self._data[self._at : self._at + len(target)]
        self._at += len(taken)
        target[: len(taken)] = taken
        return len(taken)

    def feed(self, reader):
        """Takes the raw bytes of a request."""
        while reader.left:
            self._filled += reader.read_into(self._target[self._filled :])
            while self._filled == len(self._target):
                size = self._records.send(self._target.obj)
                self._target = _memory(size)
                self._filled = 0

    def _read(self):
        """Asks for so many bytes by `yield`, and gets them."""
        while True:
            (size,) = _unpack((yield 4))
            head = from_json(bytes((yield size)))
            data = yield head["data"]
            buffers = []
            for length, readonly in head["buffers"]:
                view = memoryview((yield length))
                buffers.append(view.toreadonly() if readonly else view)
            self._bind(head, data, buffers)
            if _now() - self._told > _QUIET:
                self._told = _now()
                send({"type": "loading"})

    def _bind(self, head, data, buffers):
        name = head["name"]
        entry = {"name": name}
        if "namespace" in head:
            entry["namespace"] = head["namespace"]
        self.names.append(entry)
        try:
            if not name.isidentifier() or name.startswith("__"):
                raise ValueError("not a name")
            namespace = self._namespaces[head.get("namespace", MAIN)]
            if self._broken_at is not None:
                self._recover(head["first"])
            before = _getrefcount(self._lost)
            left = self._end - _now()
            if left <= 0:
                raise TimeoutError("the time of the whole snapshot was up")
            box = limited(min(self._name_seconds, left), self._unpickle, data, buffers)
            if _getrefcount(self._lost) != before:
                raise ValueError(f"it holds parts of {', '.join(self._failed[-5:])}")
            (value,) = box
        except BaseException as error:
            entry["why"] = _reason(error)
            self._failed.append(name)
            if self._broken_at is None:
                self._broken_at = head["first"]
            return
        namespace.names[name] = value
        if not name.startswith("_"):
            namespace.manifest.bind_seed(name, head["cell"])


def load(session, sources, name_seconds, seconds):
    """Reads the parts that follow, and answers with which names came back."""
    for filename, source in sources.items():
        errors.remember(filename, source)
    _current[:] = [session.namespaces]
    _invalidate_caches()  # the workspace's files are new
    loader = _Loader(session, name_seconds, seconds)
    reader = session.reader
    why = None
    while True:
        request = reader.next_head()
        if request.get("type") != "load_part":
            _exit(71)
        if why is None:
            try:
                loader.feed(reader)
            except BaseException as error:
                why = _reason(error)
        while reader.left:
            reader.read_into(memoryview(bytearray(_PART)))
        if request["last"]:
            break
    for namespace in session.namespaces.all.values():
        namespace.names["__builtins__"] = builtins
    answer = {"type": "loaded", "names": loader.names}
    if why is not None:
        answer["why"] = why
    send(answer)
