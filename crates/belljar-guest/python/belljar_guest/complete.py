"""Completion of a name from the live namespace, of a key or column in brackets, of a path in quotes.

Attributes are followed without running properties: a value is taken from where it is stored, and
where only code could tell, completion ends there.
"""

from belljar_guest import BUILTINS as __builtins__

import builtins
import inspect
import keyword
import os
import re
import sys
import types

from belljar_guest.state import Overtime, limited

_WORD = re.compile(r"(?:[^\W\d]\w*\.)*(?:[^\W\d]\w*)?\Z")
_IMPORT = re.compile(r"(?:^|;)\s*(?:import|from)\s+[\w., ]*\Z")
# A text that is not closed before the cursor, on one line; and what it is a key of.
_TEXT = re.compile(r"""(?:[^'"#]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*?(['"])((?:(?!\1)[^\\])*)\Z""")
_KEY_OF = re.compile(r"((?:[^\W\d]\w*\.)*[^\W\d]\w*)(?:\.loc\[[^\[\]]*,\s*|\[)(?:\[(?:[^\[\]]*,)?\s*)?\Z")
_scandir = os.scandir
_split = os.path.split
_getattr_static = inspect.getattr_static
_ModuleType = types.ModuleType
_KEYWORDS = tuple(keyword.kwlist)
_BUILTIN_NAMES = vars(builtins)
_STDLIB = tuple(getattr(sys, "stdlib_module_names", ()))
_modules = sys.modules
_MAX = 100
_SECONDS = 0.3
MISSING = object()


def complete(namespace, code, cursor):
    """The byte offset where the word starts, and what it could become."""
    before = code.encode("utf-8", "surrogatepass")[: max(0, cursor)].decode("utf-8", "ignore")
    line = before[-1000:].rsplit("\n", 1)[-1]
    quoted = _TEXT.match(line)
    if quoted:
        stub = quoted.group(2)
        find, arguments = _quoted, (namespace, line[: quoted.start(1)], stub)
    else:
        *path, stub = _WORD.search(before[-1000:]).group().split(".")
        find, arguments = _candidates, (namespace, path, stub, before)
    start = len(before.encode("utf-8", "surrogatepass")) - len(stub.encode("utf-8", "surrogatepass"))
    try:
        found = limited(_SECONDS, find, *arguments)
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


def _quoted(namespace, before, stub):
    """What a text that begins so could be: a key of what is before the bracket, else a path."""
    key_of = _KEY_OF.search(before)
    names = _keys(value_of(namespace, key_of.group(1).split("."))) if key_of else None
    if names is not None:
        matching = {name for name in names if type(name) is str and name.startswith(stub)}
        return sorted(matching)[:_MAX]
    parent, name = _split(stub)
    found = []
    with _scandir(parent or ".") as entries:
        for entry in entries:
            if entry.name.startswith(name) and (name or not entry.name.startswith(".")):
                end = "/" if entry.is_dir() else ""
                found.append(stub[: len(stub) - len(name)] + entry.name + end)
    return sorted(found)[:_MAX]


def _keys(value):
    """The keys of a dictionary, the columns of a table; None of anything else."""
    cls = type(value)
    if cls is dict:
        return list(value)
    pandas = _modules.get("pandas")
    if pandas is not None:
        if cls is vars(pandas).get("DataFrame"):
            return list(value.columns)
        if cls is vars(pandas).get("Series"):
            return list(value.index[:10_000])
    return None


def _attributes(namespace, path):
    value = value_of(namespace, path)
    return [] if value is MISSING else dir(value)


def value_of(namespace, path):
    """What a path of names leads to without running a property; `MISSING` where that won't do."""
    value = namespace.get(path[0], MISSING)
    if value is MISSING:
        value = _BUILTIN_NAMES.get(path[0], MISSING)
    for name in path[1:]:
        if value is MISSING:
            return value
        if type(value) is _ModuleType:
            value = vars(value).get(name, MISSING)
            continue
        value = _getattr_static(value, name, MISSING)
        if hasattr(type(value), "__get__") and not inspect.isroutine(value):
            return MISSING
    return value
