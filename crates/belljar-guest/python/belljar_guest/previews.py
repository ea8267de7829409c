"""The beginning of a value on one line, for people who look at a namespace.

It runs no code of the user: only values whose class is exactly one that we know are shown, and of
their members the same. What it costs does not depend on how large a value is.
"""

from belljar_guest import BUILTINS as __builtins__

import sys

from belljar_guest.names import flags, type_name

_modules = sys.modules

_WIDTH = 80
_DEPTH = 3
_MEMBERS = 10  # of a container, and of an array
_TEXT = 30  # characters of a text within a container
_INT_BITS = 256
_DIGITS_OF_BIT = 0.30102999566398

_BRACKETS = {list: "[]", tuple: "()", set: "{}", frozenset: "{}", dict: "{}"}
# By their ids: to look for a type itself would run the `__hash__` of its metaclass.
_CONTAINERS = frozenset(map(id, _BRACKETS))
_PLAIN = frozenset(map(id, (bool, float, complex, type(None), type(Ellipsis))))
_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
_KINDS.update({"O": "object", "U": "str", "S": "bytes", "M": "datetime64", "m": "timedelta64"})
_NUMBERS = frozenset("biuf")
_SCALARS = ("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_SCALARS += ("float16", "float32", "float64")
_INDEXES = ("Index", "DatetimeIndex", "TimedeltaIndex")
_HEAP_TYPE = 1 << 9  # a class that was made at run time, and not one of numpy's C code

# By their ids: types of numpy's numbers, and of the columns of pandas; found when these are first seen.
_numbers = {}
_columns = {}


def learn(library, loaded):
    if library == "numpy":
        for name in _SCALARS:
            cls = vars(loaded).get(name)
            if isinstance(cls, type) and not flags(cls) & _HEAP_TYPE:
                _numbers[id(cls)] = cls
    elif library == "pandas":
        arrays = vars(loaded).get("arrays")
        known = list(vars(arrays).values()) if type(arrays) is type(sys) else []
        for cls in (*known, *(vars(loaded).get(name) for name in _INDEXES)):
            if isinstance(cls, type):
                _columns[id(cls)] = cls


def preview(value, library):
    """A line for a value, or None. `library` is whose shaped type its class is, if it is one."""
    try:
        if library == "numpy":
            text = _array(value)
        elif library == "pandas":
            text = _table(value)
        else:
            text = _value(value, _WIDTH, 0)
    except Exception:
        return None
    if text is not None and len(text) > _WIDTH:
        return text[: _WIDTH - 1] + "…"
    return text


def _value(value, room, depth):
    """About `room` characters of a value; None for what is not known well enough to look at it."""
    cls = type(value)
    if cls is str or cls is bytes:
        return _text(value, _TEXT if depth else room)
    if cls is int:
        return _int(value)
    kind = id(cls)
    if kind in _PLAIN:
        return repr(value)
    if kind in _CONTAINERS:
        return _container(value, cls, room, depth)
    if kind in _numbers:
        return repr(value.item())
    if cls is bytearray:
        return "bytearray(" + _text(bytes(value[: room + 1]), room) + ")"
    if cls is range:
        return "range(" + ", ".join(map(_int, (value.start, value.stop, value.step))) + ")"
    return None


def _text(value, room):
    if len(value) <= room:
        return repr(value)
    shown = repr(value[:room])
    return shown[:-1] + "…" + shown[-1]


def _int(value):
    # The decimal digits of a long number take time that grows with their square.
    bits = value.bit_length()
    if bits <= _INT_BITS:
        return repr(value)
    return ("-" if value < 0 else "") + "≈10**" + repr(round(bits * _DIGITS_OF_BIT))


def _container(value, cls, room, depth):
    left, right = _BRACKETS[cls]
    if not value:
        return "set()" if cls is set else "frozenset()" if cls is frozenset else left + right
    if depth == _DEPTH:
        return left + "…" + right
    parts = []
    for member in value.items() if cls is dict else value:
        if room <= 0 or len(parts) == _MEMBERS:
            parts.append("…")
            break
        if cls is dict:
            key, held = member
            key = _member(key, room, depth)
            part = key + ": " + _member(held, room - len(key) - 2, depth)
        else:
            part = _member(member, room, depth)
        parts.append(part)
        room -= len(part) + 2
    inside = ", ".join(parts)
    if cls is tuple and len(value) == 1:
        inside += ","
    inside = left + inside + right
    return "frozenset(" + inside + ")" if cls is frozenset else inside


def _member(value, room, depth):
    text = _value(value, room, depth + 1)
    return "<" + type_name(value)[:_TEXT] + ">" if text is None else text


def _array(value):
    """The type of an array's members, and the first of them."""
    dtype = value.dtype
    kind = dtype.kind
    name = _KINDS.get(kind)
    if name and kind in "iufc":
        name += repr(dtype.itemsize * 8)
    if kind not in _NUMBERS or not value.size or not _owns(value):
        return name
    return name + ": " + _first(value)


def _first(value):
    """The first members of an array. No more than these are copied, however it lies in memory."""
    parts = [_member(one, _TEXT, 0) for one in value.flat[:_MEMBERS].tolist()]
    return ", ".join(parts) + (", …" if value.size > _MEMBERS else "")


def _owns(value):
    """Whether its memory is numpy's own: that of others may be gone by now, such as a file's."""
    cls = type(value)
    for _ in range(4):
        base = value.base
        if base is None:
            return value.flags.owndata
        if type(base) is not cls:
            return False
        value = base
    return False


def _table(value):
    """The first columns of a frame, or members of a series or an index."""
    manager = getattr(value, "_mgr", None)
    if manager is None:
        members = _backing(value._data)
    elif len(manager.axes) == 2:
        axis = manager.axes[0]
        if id(type(axis)) not in _columns:
            return None
        labels = _arrow_labels(axis._data)
        if labels is not None:
            return labels
        members = _backing(axis._data)
    else:
        members = _backing(manager.arrays[0])
    if members is None or members.dtype.kind != "O":
        return None if members is None else _array(members)
    return _first(members) if _owns(members) else None


def _arrow_labels(data):
    """The first of the labels that pandas keeps in Arrow's memory, if it does. Labels are never in a mapped file."""
    arrow = _modules.get("pyarrow.lib")
    cls = None if arrow is None else vars(arrow).get("ChunkedArray")
    if not isinstance(cls, type) or flags(cls) & _HEAP_TYPE or id(type(data)) not in _columns:
        return None
    chunks = vars(data).get("_pa_array")
    if type(chunks) is not cls:
        return None
    parts = [_member(one, _TEXT, 0) for one in chunks.slice(0, _MEMBERS).to_pylist()]
    return ", ".join(parts) + (", …" if len(chunks) > _MEMBERS else "")


def _backing(data):
    """The array of numpy that an array of pandas keeps its members in, if it does."""
    if id(type(data)) in _columns:
        data = data._ndarray
    numpy = _modules.get("numpy")
    return data if numpy is not None and type(data) is vars(numpy).get("ndarray") else None
