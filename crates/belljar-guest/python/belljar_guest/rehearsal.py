"""The rehearsal of a pooled session while it waits: the steps of a typical first cell.

In a fresh fork every page that is written to must be copied first, which is most of the cost of a
first cell. A pooled session can pay for that before anybody waits for it.
"""

from belljar_guest import BUILTINS as __builtins__

import builtins
import sys

from belljar_guest.cells import Cells
from belljar_guest.manifest import Manifest
from belljar_guest.reseed import reseed
from belljar_guest.state import STATE
from belljar_guest.wire import to_json

_CELL = 0xFFFFFFFF  # a number that no cell gets, so no interrupt can mean it

# None of these ends with an expression, whose value would be shown to the host.

_PYTHON = """
import io, json, math
def f(x): return [x, {"a": (1, 2.5)}]
print(f(3), sep="", end="\\n", file=io.StringIO())
try:
    {}["missing"]
except KeyError:
    pass
"""

_NUMPY = """
import numpy as np
a = np.arange(6).reshape(2, 3) * 1.5
shown = repr((a.sum(axis=0), a.mean()))
"""

_PANDAS = """
import pandas as pd
frame = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, None], "c": ["x", "y", "z"]})
shown = repr((frame["a"].sum(), frame[frame["b"] > 1].shape, frame))
"""

_PYPLOT = """
import matplotlib.pyplot as plt
shown = plt.get_backend()
"""

_MOVES = (
    (None, _PYTHON),
    ("numpy", _NUMPY),
    ("pandas", _PANDAS),
    ("matplotlib.pyplot", _PYPLOT),
)


def rehearse(session, rounds=1):
    """Performs the steps in namespaces of their own; nothing of it stays visible.

    The template does it too, some rounds of it: by then the interpreter has adapted its bytecode to
    what it sees, and a session that runs it need not write to those pages again.
    """
    for _ in range(rounds):
        for library, code in _MOVES:
            if library is None or library in sys.modules:
                _move(session, _CELL, code)
    STATE.begin(0, "")
    # The numbers that were drawn, if any, are not those that the session draws.
    reseed()


def _move(session, cell, code):
    namespace = {"__name__": "__main__", "__builtins__": builtins}
    cells, manifest = Cells(namespace, session.streams), Manifest(namespace)
    to_json(session.perform(cells, manifest, cell, "", code))


def settle(session):
    """After a checkpoint was made: the first steps of a cell, which copy pages, are done ahead of it.

    As cell 0, so that an interrupt meant for the next one is kept for it.
    """
    for code in ("x = 1\n", _PYTHON):
        _move(session, 0, code)
    session.namespaces.current.manifest.touch()
    session.reader.rehearse()
    STATE.begin(0, "")
