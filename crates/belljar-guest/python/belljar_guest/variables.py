"""Environment variables that the host gives to a session, or to one cell.

`os.environ` is changed beneath its methods: no code of a cell runs here.
"""

from belljar_guest import BUILTINS as __builtins__

import os

_data = os.environ._data
_putenv = os.putenv
_unsetenv = os.unsetenv


def assign(values):
    """Sets variables; returns what they were before, for `restore`."""
    before = {}
    for name, value in values.items():
        key, value = name.encode(), value.encode()
        before[key] = _data.get(key)
        _data[key] = value
        _putenv(key, value)
    return before


def restore(before):
    for key, value in before.items():
        if type(value) is bytes:
            _data[key] = value
            _putenv(key, value)
        else:
            _data.pop(key, None)
            _unsetenv(key)


def remove(names):
    restore({name.encode(): None for name in names})
