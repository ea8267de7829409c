"""Completion of a name from the live namespace.

Attributes are followed without running properties: a value is taken from where it is stored, and
where only code could tell, completion ends there.
"""

from belljar_guest import BUILTINS as __builtins__

import builtins
import inspect
import keyword
import re
import sys
import types

from belljar_guest.state import Overtime, limited

_WORD = re.compile(r"(?:[^\W\d]\w*\.)*(?:[^\W\d]\w*)?\Z")
_IMPORT = re.compile(r"(?:^|;)\s*(?:import|from)\s+[\w., ]*\Z")
_getattr_static = inspect.getattr_static
_ModuleType = types.ModuleType
_KEYWORDS = tuple(keyword.kwlist)
_BUILTIN_NAMES = vars(builtins)
_STDLIB = tuple(getattr(sys, "stdlib_module_names", ()))
_modules = sys.modules
_MAX = 100
_SECONDS = 0.3
_MISSING = object()


def complete(namespace, code, cursor):
    """The byte offset where the word starts, and what it could become."""
    before = code.encode("utf-8", "surrogatepass")[: max(0, cursor)].decode("utf-8", "ignore")
    word = _WORD.search(before[-1000:]).group()
    *path, stub = word.split(".")
    start = len(before.encode("utf-8", "surrogatepass")) - len(stub.encode())
    try:
        found = limited(_SECONDS, _candidates, namespace, path, stub, before)
    except (Exception, Overtime, SystemExit):
        found = []
    return start, found


def _candidates(namespace, path, stub, before):
    if before[: len(before) - len(".".join((*path, stub)))].endswith("."):
        names = []  # an attribute of an expression, which would have to be run
    elif path:
        names = _attributes(namespace, path)
    elif _IMPORT.search(before.rsplit("\n", 1)[-1]):
        names = [name for name in (*_modules, *_STDLIB) if "." not in name]
    else:
        names = [*namespace, *_KEYWORDS, *_BUILTIN_NAMES]
    matching = {
        name
        for name in names
        if type(name) is str
        and name.startswith(stub)
        and (stub.startswith("_") or not name.startswith("_"))
    }
    return sorted(matching)[:_MAX]


def _attributes(namespace, path):
    value = namespace.get(path[0], _MISSING)
    if value is _MISSING:
        value = _BUILTIN_NAMES.get(path[0], _MISSING)
    for name in path[1:]:
        if value is _MISSING:
            return []
        if type(value) is _ModuleType:
            value = vars(value).get(name, _MISSING)
            continue
        value = _getattr_static(value, name, _MISSING)
        if hasattr(type(value), "__get__") and not inspect.isroutine(value):
            return []
    if value is _MISSING:
        return []
    return dir(value)
