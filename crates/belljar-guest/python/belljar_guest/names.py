"""What a value's type is called, found without running any of the user's code.

`type(x).__name__` runs a metaclass's code if there is one; the descriptors of `type` don't.
"""

from belljar_guest import BUILTINS as __builtins__

_name = type.__dict__["__name__"].__get__
_qualname = type.__dict__["__qualname__"].__get__
_module = type.__dict__["__module__"].__get__
_mro = type.__dict__["__mro__"].__get__
_dict = type.__dict__["__dict__"].__get__
flags = type.__dict__["__flags__"].__get__


def qualname(cls):
    name = _qualname(cls)
    return name if type(name) is str else "?"


def short_name(cls):
    name = _name(cls)
    return name if type(name) is str else "?"


def module(cls):
    try:
        name = _module(cls)
    except AttributeError:
        return "?"
    return name if type(name) is str else "?"


def type_name(value, hidden=("builtins",)):
    """`module.Type`, the module left out where it is one of `hidden`."""
    cls = type(value)
    where = module(cls)
    name = qualname(cls)
    if len(name) > 500:
        name = name[:500] + "..."
    return name if where in hidden else where[:500] + "." + name


def lookup(cls, name):
    """The attribute `name` of a class as its definition says, or None."""
    for base in _mro(cls):
        found = _dict(base).get(name)
        if found is not None:
            return found
    return None
