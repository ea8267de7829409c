"""The module `tools`: a function for each tool that is granted to the session."""

from belljar_guest import BUILTINS as __builtins__

import builtins
import importlib
import inspect
import json.encoder
import pathlib
import sys
import types

from belljar_guest.calls import ToolDenied, ToolError
from belljar_guest.wire import from_json, to_json

_modules = sys.modules
_import_module = importlib.import_module
_Parameter = inspect.Parameter
_Signature = inspect.Signature
_PurePath = pathlib.PurePath
_MOST = 256 << 10  # bytes of arguments


class Kept:
    """A result that stays with the host. Its text is a marker, which the host puts the result for."""

    def __init__(self, marker):
        self.marker = marker

    def __str__(self):
        return self.marker

    __repr__ = __str__

    def __eq__(self, other):
        return type(other) is type(self) and other.marker == self.marker

    def __hash__(self):
        return hash(self.marker)


class ResultFile(type(pathlib.Path())):
    """A result that is too large to be sent: a file of JSON in the workspace."""

    def load(self):
        """The result itself."""
        return from_json(self.read_bytes())


Kept.__module__ = ResultFile.__module__ = "tools"
_NAMES = {"ToolError": ToolError, "ToolDenied": ToolDenied, "Kept": Kept, "ResultFile": ResultFile}


class _Type(str):
    """An annotation, shown as it is."""

    __repr__ = str.__str__


def _plain(value):
    """What JSON has no form for, as something that it has."""
    if isinstance(value, (Kept, _PurePath)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return list(value)
    if type(value).__name__ == "DataFrame":
        return value.to_dict("records")
    for method in ("tolist", "isoformat"):  # arrays and their numbers, series; dates and times
        convert = getattr(value, method, None)
        if convert is not None:
            return convert()
    raise TypeError(f"an argument of type {type(value).__name__} can't be sent to a tool")


_encode = json.encoder.c_make_encoder(
    None, _plain, json.encoder.c_encode_basestring, None, ":", ",", False, False, False
)


class _Tools(types.ModuleType):
    """Tools of the host that this session may call. `help(tools.NAME)` tells more of each."""

    def __getattr__(self, name):
        there = ", ".join(vars(self)["__all__"])
        raise AttributeError(f"no tool {name!r} is granted to this session; there are: {there}")

    def __dir__(self):
        return sorted([*vars(self)["__all__"], *_NAMES])

    def __reduce__(self):
        return _import_module, ("tools",)


def grant(session, stubs):
    """Binds `tools` for the session's code."""
    module = _Tools("tools", _Tools.__doc__)
    for name, value in _NAMES.items():
        setattr(module, name, value)
    for stub in stubs:
        setattr(module, stub["identifier"], _function(session, stub))
    module.__all__ = [stub["identifier"] for stub in stubs]
    builtins.tools = _modules["tools"] = module


def _function(session, stub):
    parameters = stub["parameters"]
    name = stub["identifier"]
    known = {key: p for p in parameters for key in (p["name"], p["identifier"])}

    def tool(*args, **kwargs):
        if len(args) > len(parameters):
            raise TypeError(f"{name}() takes {len(parameters)} arguments; {len(args)} were given")
        given = {p["name"]: value for p, value in zip(parameters, args)}
        for key, value in kwargs.items():
            if key not in known and not stub["open"]:
                names = ", ".join(p["identifier"] for p in parameters)
                raise TypeError(f"{name}() has no parameter {key!r}; it has: {names or 'none'}")
            key = known[key]["name"] if key in known else key
            if key in given:
                raise TypeError(f"{name}() got two values for {key!r}")
            given[key] = value
        for p in parameters:
            if p["name"] not in given:
                if p["required"]:
                    raise TypeError(f"{name}() needs the argument {p['identifier']!r}")
            elif given[p["name"]] is None and not p["required"] and not p["nullable"]:
                del given[p["name"]]
        data = to_json(given, _encode)
        if len(data) > _MOST:
            raise ValueError(f"{name}(): the arguments are too large; write them to a file")
        return session.calls.make(stub["name"], data, take)

    def take(answer):
        if "error" in answer:
            raise ToolError(answer["error"])
        if "denied" in answer:
            raise ToolDenied(answer["denied"])
        if "kept" in answer:
            return Kept(answer["kept"])
        if "file" in answer:
            file = ResultFile(session.workspace.root, answer["file"])
            return _table(file.load()) if stub["table"] else file
        return _table(answer["value"]) if stub["table"] else answer["value"]

    tool.__name__ = tool.__qualname__ = name
    tool.__module__ = "tools"
    tool.__doc__ = stub["doc"]
    tool.__signature__ = _signature(stub)
    return tool


def _signature(stub):
    parameters = []
    for p in stub["parameters"]:
        default = _Parameter.empty if p["required"] else p["default"]
        kind = _Parameter.POSITIONAL_OR_KEYWORD
        annotation = _Type(p["annotation"])
        parameters.append(
            _Parameter(p["identifier"], kind, default=default, annotation=annotation)
        )
    if stub["open"]:
        parameters.append(_Parameter("arguments", _Parameter.VAR_KEYWORD))
    return _Signature(parameters, return_annotation=_Type(stub["returns"]))


def _table(value):
    """A DataFrame of `{"columns": [...], "rows": [...]}` or of objects, where pandas is there."""
    try:
        import pandas
    except ImportError:
        return value
    if isinstance(value, dict) and "rows" in value:
        return pandas.DataFrame(value["rows"], columns=value.get("columns"))
    return pandas.DataFrame(value)
