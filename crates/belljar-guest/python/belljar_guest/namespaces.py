"""The namespaces of a session. Cells run in one of them, one at a time, in the one interpreter.

The host decides which there are, and names one with each request. Here they are made when a cell first
runs in them.
"""

from belljar_guest import BUILTINS as __builtins__

import builtins
import os
import sys
import types

from belljar_guest.cells import Cells
from belljar_guest.errors import describe
from belljar_guest.manifest import Manifest
from belljar_guest.state import Overtime, limited

_ModuleType = types.ModuleType
_modules = sys.modules
_chdir = os.chdir
_getcwd = os.getcwd

MAIN = "main"
# For the destructors of all values of a namespace.
_SECONDS = 2.0


class Namespace:
    """The global names of some cells, in a module `__main__` of their own."""

    def __init__(self, name, streams, directory):
        self.name = name
        self.module = _ModuleType("__main__")
        self.names = vars(self.module)
        self.names["__builtins__"] = builtins
        self.cells = Cells(self.names, streams)
        self.manifest = Manifest(self.names)
        # Where its next cell starts. That of the current namespace is the directory of the process.
        self.directory = directory

    def end(self):
        """Lets go of all values, which runs the code of their classes."""
        try:
            limited(_SECONDS, self.cells.close_loop)
            limited(_SECONDS, self.names.clear)
        except (Exception, Overtime):
            pass


class Namespaces:
    """All namespaces of a session."""

    def __init__(self, streams, directory):
        self._streams = streams
        self._root = directory
        self.all = {MAIN: Namespace(MAIN, streams, directory)}
        self.current = self.all[MAIN]
        self._shell = {}

    def lead(self, shell):
        """The shell follows the current namespace. Its dictionary is kept: code may change what assigning
        to the shell does."""
        self._shell = vars(shell)

    @property
    def main(self):
        return self.all[MAIN]

    def names_of(self, name):
        """The names of a namespace; none before its first cell."""
        found = self.all.get(name)
        return {} if found is None else found.names

    def manifest_of(self, name):
        found = self.all.get(name)
        return [] if found is None else found.manifest.names()

    def enter(self, name, directory=None, fresh=False):
        """Makes a namespace the current one, before a cell of it; returns what runs the cell. `fresh`: what
        has its name here is another, from a checkpoint."""
        if fresh:
            self.clear(name)
        elif name == self.current.name:
            return self.current.cells
        entered = self.all.get(name) or Namespace(name, self._streams, directory or self._root)
        try:
            self._leave(entered.directory)
        except OSError as error:
            return _Barred(error)
        self.all[name] = entered
        self._become(entered)
        return entered.cells

    def clear(self, name):
        """Forgets the variables of a namespace."""
        ended = self.all.pop(name, None)
        if ended is None:
            return
        if name == MAIN:
            self.all[MAIN] = Namespace(MAIN, self._streams, self._root)
        if ended is self.current:
            for directory in (self.main.directory, self._root):
                try:
                    _chdir(directory)
                    break
                except OSError:
                    pass
            self._become(self.main)
        ended.end()

    def add(self, name, directory):
        """One that a snapshot has."""
        self.all[name] = Namespace(name, self._streams, directory)

    def move(self, moved, root):
        """In a fork: its workspace is another, and event loops are its parent's."""
        self._root = root
        for one in self.all.values():
            one.directory = moved(one.directory)
            one.cells.forget_loop()

    def _leave(self, directory):
        try:
            left = _getcwd()
        except OSError:
            left = self.current.directory  # it is gone
        _chdir(directory)
        self.current.directory = left

    def _become(self, namespace):
        self.current = namespace
        _modules["__main__"] = namespace.module
        namespace.names["__builtins__"] = builtins
        self._shell["_cells"] = namespace.cells
        self._shell["user_ns"] = self._shell["user_global_ns"] = namespace.names


class _Barred:
    """In the place of cells whose directory can't be entered: it could be the wrong files that they change."""

    def __init__(self, error):
        self._error = error

    def run(self, cell, code):
        told = describe(self._error, f"<cell {cell}>")
        return {"end": "exception", "exception": told, "run_us": 0}
