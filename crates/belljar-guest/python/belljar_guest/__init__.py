"""What runs inside a Belljar template and its sessions.

Every module of this package starts with

    from belljar_guest import BUILTINS as __builtins__

A function looks its builtins up in the dict that its module names `__builtins__` when the function
is made. With a private copy there, `del builtins.len` in a cell breaks the cell and not the driver.
For the same reason the driver keeps its own references to what it calls (`os.read`, the JSON
encoder, ...) instead of looking them up in modules that a cell can patch.

None of this is a wall: code in a cell can reach every object of its process. It keeps accidents and
careless code from breaking the session; the host trusts nothing that a guest says.
"""

import builtins

BUILTINS = dict(vars(builtins))

# Frames of files under this directory are ours and never shown to users.
HOME = __file__[: -len("__init__.py")]
