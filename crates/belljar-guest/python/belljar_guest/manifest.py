"""What the namespace holds, and what a cell did to it.

It is on the path of every cell, so a name costs a fraction of a microsecond, and it runs no code of
the user: only exact built-in, numpy and pandas types are asked for length or shape.
"""

from belljar_guest import BUILTINS as __builtins__

import sys
import types

from belljar_guest.names import type_name
from belljar_guest.previews import learn, preview

_getsizeof = sys.getsizeof
_modules = sys.modules
_ModuleType = types.ModuleType

_MAX_CHANGES = 200
_MAX_NAMES = 10_000

# Types by their ids: to look for a type itself would run the `__hash__` of its metaclass.
_SIZED = frozenset(map(id, (str, bytes, bytearray, list, tuple, dict, set, frozenset, range)))
_MUTABLE = frozenset(map(id, (list, dict, set, bytearray)))
_FLAT = frozenset(map(id, (str, bytes, bytearray, range)))
_SCALARS = frozenset(map(id, (int, float, complex, bool, type(None))))
# Types with a shape, found when their module is first seen: {id: (library, type)}.
_shaped = {}
_seen_libraries = set()


def learn_libraries():
    """Takes the types of numpy and pandas when they have been imported."""
    if len(_seen_libraries) == 2:
        return
    for library, names in (("numpy", ("ndarray",)), ("pandas", ("DataFrame", "Series", "Index"))):
        loaded = _modules.get(library)
        if library in _seen_libraries or type(loaded) is not _ModuleType:
            continue
        found = [vars(loaded).get(name) for name in names]
        if all(isinstance(one, type) for one in found):
            _seen_libraries.add(library)
            for one in found:
                _shaped[id(one)] = library, one
            learn(library, loaded)


def _shape(value):
    try:
        return tuple(value.shape)
    except Exception:
        return ()


class Manifest:
    """The names of one namespace and where they were bound."""

    def __init__(self, namespace):
        self.namespace = namespace
        # name -> (id of value, id of its type, length or shape). No reference is kept to a value:
        # that would keep memory alive which the user has let go.
        self._known = {}
        self._bound = {}

    def cell_of(self, name):
        return self._bound.get(name, 0)

    def bind_seed(self, name, cell=0):
        """Notes a name that no cell of this session has bound."""
        self._bound[name] = cell
        value = self.namespace[name]
        self._known[name] = (id(value), id(type(value)), _extent(value))

    def changes(self, cell, drop):
        """Compares with the state after the cell before; lists that would be empty are left out."""
        learn_libraries()
        known = self._known
        added = []
        changed = []
        present = 0
        for name, value in list(self.namespace.items()):
            if type(name) is not str or not name or name[0] == "_":
                continue
            cls = id(type(value))
            if cls in _MUTABLE:
                extent = len(value)
            elif cls in _shaped:
                extent = _shape(value)
            else:
                extent = None
            present += 1
            before = known.get(name)
            if before is None:
                known[name] = (id(value), cls, extent)
                self._bound[name] = cell
                added.append(name)
            elif before[0] != id(value) or before[2] != extent or before[1] != cls:
                known[name] = (id(value), cls, extent)
                if before[0] != id(value) or before[1] != cls:
                    self._bound[name] = cell
                changed.append(name)
        removed = []
        if present != len(known):
            removed = [name for name in known if name not in self.namespace]
            for name in removed:
                del known[name]
                self._bound.pop(name, None)
        total = len(added) + len(changed) + len(removed)
        if total > _MAX_CHANGES:
            drop(f"changes of {total - _MAX_CHANGES} names are not listed")
            added = added[:_MAX_CHANGES]
            changed = changed[: _MAX_CHANGES - len(added)]
            removed = removed[: _MAX_CHANGES - len(added) - len(changed)]
        changes = {}
        if added:
            changes["added"] = [self.info(name) for name in added]
        if changed:
            changes["changed"] = [self.info(name) for name in changed]
        if removed:
            changes["removed"] = removed
        return changes

    def info(self, name):
        value = self.namespace.get(name)
        entry = {"name": name, "type": type_name(value), "cell": self._bound.get(name, 0)}
        cls = id(type(value))
        if cls in _SIZED:
            try:
                entry["length"] = len(value)
            except OverflowError:
                pass  # a range longer than a machine word
        elif cls in _shaped:
            entry["shape"] = [int(side) for side in _shape(value)]
        size = _size(value, cls)
        if size is not None:
            entry["size_bytes"] = size
        return entry

    def touch(self):
        """Looks at all values as `changes` does, and nothing else: to have their pages copied."""
        known = self._known
        for name, value in list(self.namespace.items()):
            known.get(name)
            if id(type(value)) in _MUTABLE:
                len(value)

    def names(self):
        """The whole manifest, with previews: it is asked for, and not a part of every cell."""
        learn_libraries()
        listed = []
        for name in list(self.namespace):
            if type(name) is str and name and name[0] != "_":
                entry = self.info(name)
                value = self.namespace.get(name)
                shown = preview(value, _library(id(type(value))))
                if shown is not None:
                    entry["preview"] = shown
                listed.append(entry)
                if len(listed) >= _MAX_NAMES:
                    break
        return listed


def _library(cls):
    """Whose type it is that has this id, if it has a shape."""
    found = _shaped.get(cls)
    return found[0] if found else None


def _extent(value):
    cls = id(type(value))
    if cls in _MUTABLE:
        return len(value)
    return _shape(value) if cls in _shaped else None


def _size(value, cls):
    """Estimate of the bytes a value holds; None where only user code could tell."""
    try:
        library = _library(cls)
        if library == "numpy":
            return int(value.nbytes)
        if library == "pandas":
            # Not `memory_usage`, which builds a Series and in a fresh fork costs milliseconds.
            manager = getattr(value, "_mgr", None)
            arrays = (value,) if manager is None else manager.arrays
            return sum(int(array.nbytes) for array in arrays)
        if cls in _SIZED or cls in _SCALARS:
            return _size_builtin(value, cls, 0)
    except Exception:
        pass
    return None


def _size_builtin(value, cls, depth):
    size = _getsizeof(value)
    if depth == 2 or cls in _FLAT or cls in _SCALARS:
        return size
    count = len(value)
    if not count:
        return size
    # A few members stand for all.
    sample = 0
    taken = 0
    is_dict = type(value) is dict
    for member in value.items() if is_dict else value:
        for one in member if is_dict else (member,):
            kind = id(type(one))
            if kind in _SIZED or kind in _SCALARS:
                sample += _size_builtin(one, kind, depth + 1)
            elif _library(kind) == "numpy":
                sample += int(one.nbytes)
            else:
                sample += 64
        taken += 1
        if taken == 20:
            break
    return size + sample * count // taken
