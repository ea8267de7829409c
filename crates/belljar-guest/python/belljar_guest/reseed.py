"""Two forks of one template must not draw the same numbers.

`random` reseeds itself in a forked child. numpy's own reseeding takes half a millisecond in a fresh
fork, most of it in pages that it touches, so its state is overwritten in place.
"""

from belljar_guest import BUILTINS as __builtins__

import ctypes
import os
import sys

_urandom = os.urandom
_memmove = ctypes.memmove
_KEY = 624 * 4  # bytes of the state of a Mersenne twister; its position, an int, follows
_USED_UP = (624).to_bytes(4, sys.byteorder)

_numpy_state = []


def prepare():
    """In the template: finds the state of numpy's global generator and makes sure of it."""
    _numpy_state.clear()
    random = sys.modules.get("numpy.random")
    if random is None:
        return
    random.seed(0)  # also forgets a spare normal deviate
    try:
        generator = random.mtrand._rand._bit_generator
        address = generator.ctypes.state_address
        inside = generator.state["state"]
        same = ctypes.string_at(address, _KEY) == inside["key"].astype("u4").tobytes()
        position = int.from_bytes(ctypes.string_at(address + _KEY, 4), sys.byteorder)
        if same and position == inside["pos"]:
            _numpy_state.append(address)
    except Exception:
        pass  # another layout: `reseed` does it the slow way


def reseed():
    """In the session, before any user code."""
    modules = sys.modules
    if _numpy_state:
        _memmove(_numpy_state[0], _urandom(_KEY) + _USED_UP, _KEY + 4)
    elif "numpy.random" in modules:
        modules["numpy.random"].seed()
    if "torch" in modules:
        modules["torch"].manual_seed(int.from_bytes(_urandom(8), "little") >> 1)
    if "tempfile" in modules:
        modules["tempfile"]._name_sequence = None
    if "uuid" in modules:
        modules["uuid"]._last_timestamp = None


def reseed_restored():
    """In a process that others were copied from as well, and that is no fork, which would do this by itself."""
    modules = sys.modules
    if "random" in modules:
        modules["random"].seed()
    if "_ssl" in modules:
        modules["_ssl"].RAND_add(_urandom(48), 48.0)
