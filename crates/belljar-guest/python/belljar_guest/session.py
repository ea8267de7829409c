"""The request loop of a session."""

from belljar_guest import BUILTINS as __builtins__

import builtins
import keyword
import os
import sys
import time

import _thread

from belljar_guest import displays, questions, snapshot
from belljar_guest.artifacts import Workspace
from belljar_guest.calls import Calls
from belljar_guest.checkpoints import keep, lacks
from belljar_guest.complete import complete
from belljar_guest.forks import fork
from belljar_guest.inspection import completeness, inspect_at
from belljar_guest.namespaces import MAIN, Namespaces
from belljar_guest.rehearsal import rehearse, settle
from belljar_guest.shell import Shell
from belljar_guest.state import STATE, install_signals, unshield
from belljar_guest.streams import Streams
from belljar_guest.table_reads import read_table
from belljar_guest.tools import grant
from belljar_guest.variables import assign, restore
from belljar_guest.wire import Reader, send

_getpid = os.getpid
_get_ident = _thread.get_ident
_getrecursionlimit = sys.getrecursionlimit
_setrecursionlimit = sys.setrecursionlimit
_exit = os._exit
_close = os.close
_modules = sys.modules
_iskeyword = keyword.iskeyword
_set_blocking = os.set_blocking
_register_at_fork = os.register_at_fork
_now = time.monotonic

# `auto`: a checkpoint is made once the session was idle for so long, or between two cells that follow
# each other at once, if the last checkpoint is that old (in seconds).
_PAUSE_MS = 2
_OLD = 0.05


def _in_user_child():
    """In a child that the user's code forks: it keeps neither channel to the host."""
    if STATE.pid and not STATE.checkpointing and _getpid() != STATE.pid:
        for fd in (STATE.control, STATE.interrupts):
            try:
                _close(fd)
            except OSError:
                pass


class Session:
    """The namespaces and everything that belongs to them."""

    def __init__(self, workspace):
        self.streams = Streams()
        self.namespaces = Namespaces(self.streams, workspace)
        self.workspace = Workspace(workspace)
        self.packages = set()
        self.has_variables = False
        self.reader = Reader()
        self.calls = Calls(self)
        # In the template already: every page that a session writes to is a page it doesn't share,
        # and a change of `builtins` makes the interpreter respecialise much of its code.
        self.first_main = _modules.get("__main__")
        _modules["__main__"] = self.namespaces.main.module
        builtins.display = displays.display
        builtins.cite = displays.cite
        shell = Shell(self.namespaces.main.cells, self.streams)
        self.namespaces.lead(shell)
        builtins.get_ipython = shell.get_ipython
        sys.meta_path.insert(0, shell)
        questions.install(self)
        self.streams.install()
        _register_at_fork(after_in_child=_in_user_child)

    def begin(self, control, interrupts, checkpoints):
        """In the session's own process: takes over its signals and channels."""
        self.checkpoints = checkpoints
        self.kept_at = -_OLD  # when the last checkpoint was made, in seconds
        STATE.pid = _getpid()
        STATE.thread = _get_ident()
        STATE.control = control
        STATE.interrupts = interrupts
        _set_blocking(interrupts, False)
        install_signals()

    def serve(self):
        """Answers requests until the host hangs up."""
        reader = self.reader
        send({"type": "ready"})
        while True:
            request = reader.next()
            kind = request.get("type")
            if kind == "run":
                if "packages" in request:
                    self.show_packages(request["packages"])
                STATE.value_limit = request.get("value_limit", 0)
                STATE.input = "input" in request
                # Once: code may change them. A fork and a checkpoint know whether they have them.
                if "variables" in request and not self.has_variables:
                    self.has_variables = True
                    assign(request["variables"])
                before = assign(request.get("cell_variables", {}))
                cells = self.namespaces.current.cells
                if "namespace" in request or self.namespaces.current.name != MAIN:
                    cells = self.namespaces.enter(**request.get("namespace", {"name": MAIN}))
                self.run(cells, request["cell"], request["nonce"], request["code"], "busy" in request, before)
            elif kind == "seed":
                send({"type": "seeded", "refused": self.seed(request["values"])})
            elif kind == "keep":
                if self._keep(request["cell"], asked=True):
                    send({"type": "checkpointed"})
            elif kind == "manifest":
                namespace = request.get("namespace", MAIN)
                send({"type": "manifest", "names": self.namespaces.manifest_of(namespace)})
            elif kind == "complete":
                names = self.namespaces.names_of(request.get("namespace", MAIN))
                start, found = complete(names, request["code"], request["cursor"])
                send({"type": "completions", "start": start, "candidates": found})
            elif kind == "inspect":
                names = self.namespaces.names_of(request.get("namespace", MAIN))
                text = inspect_at(names, request["code"], request["cursor"], request["detail"] == "source")
                send({"type": "inspected", "text": text})
            elif kind == "is_complete":
                status, indent = completeness(request["code"])
                send({"type": "completeness", "status": status, "indent": indent})
            elif kind == "read_table":
                read_table(self.namespaces.names_of(request.get("namespace", MAIN)), request)
            elif kind == "save":
                times = request["name_seconds"], request["seconds"]
                secrets = request.get("secrets", {})
                namespaces = request.get("namespaces", ())
                snapshot.save(self, namespaces, request["limit_bytes"], *times, secrets)
            elif kind == "load":
                self.show_packages(request.get("packages", ()))
                times = request["name_seconds"], request["seconds"]
                for name, directory in request.get("namespaces", {}).items():
                    self.namespaces.add(name, directory)
                snapshot.load(self, request["sources"], *times)
            elif kind == "clear_namespace":
                self.namespaces.clear(request["namespace"])
                send({"type": "namespace_cleared"})
            elif kind == "fork":
                setup = fork(self, request["count"], request.get("withheld", ()))
                if setup is not None and setup["cell"] and self.checkpoints != "off":
                    self._keep(setup["cell"])
            elif kind == "answer":
                pass  # its cell is over
            elif kind == "grant":
                grant(self, request["tools"])
                self.calls.limit = request["calls"]
                send({"type": "granted"})
            elif kind == "rehearse":
                rehearse(self, rounds=3)
                send({"type": "rehearsed"})
            else:
                _exit(71)  # not a host that we understand

    def show_packages(self, paths):
        """Lets imports find what was installed, after all that the environment has. Their `.pth`
        files are not read. A path is added once: who takes it out again will have a reason."""
        for path in paths:
            if path not in self.packages:
                self.packages.add(path)
                if type(sys.path) is list:
                    sys.path.append(path)

    def run(self, cells, cell, nonce, code, busy, before):
        """Runs a cell; `before`: what the variables of this cell alone were."""
        has_calls = self.calls.limit or STATE.input
        if has_calls:
            self.calls.begin()
        report = self.perform(cells, self.namespaces.current.manifest, cell, nonce, code)
        restore(before)
        if has_calls:
            self.calls.end()
        # `every`: the checkpoint is there before the cell is reported. `auto`: it is made while the
        # caller is idle. A woken checkpoint has nothing to answer: its cell was reported long ago.
        if self.checkpoints == "every":
            if not self._keep(cell):
                return
            self._answer(report)
        else:
            self._answer(report)
            # A host without time for it says so: a checkpoint costs several times what a small cell does.
            if self.checkpoints == "auto" and not busy and self._may_pause() and self._keep(cell):
                settle(self)

    def _may_pause(self):
        """Whether nobody waits for this session, or the last checkpoint is old."""
        if _now() - self.kept_at > _OLD:
            return True
        return not self.reader.is_waited_for(_PAUSE_MS)

    def _keep(self, cell, asked=False):
        """Makes a checkpoint and reports it to the host; false in a woken checkpoint."""
        lacking = lacks()
        woken = False
        checkpoint = keep()
        while checkpoint is None:
            # Its place among the checkpoints is taken again before the next request is read.
            woken = asked = True
            send({"type": "woke", "cell": cell, **lacking})
            checkpoint = keep()
        if checkpoint or asked:
            send({"type": "kept", "cell": cell, "pid": checkpoint, "asked": asked})
        self.kept_at = _now()
        return not woken

    def perform(self, cells, manifest, cell, nonce, code):
        """Runs a cell with all that belongs to it, and returns its report."""
        self.streams.restore()
        module = self.namespaces.current.module
        if _modules.get("__main__") is not module:
            _modules["__main__"] = module
        STATE.begin(cell, nonce)
        self.workspace.before()
        install_signals()
        report = cells.run(cell, code)
        if _getrecursionlimit() < 400:
            _setrecursionlimit(400)
        self.streams.flush()
        # In the template, which rehearses, no session has begun.
        if STATE.pid and _getpid() != STATE.pid:
            self._end_user_child(report)
        changes = self._safely("changes", manifest.changes, None, cell, STATE.note)
        if changes:
            report["changes"] = changes
        artifacts = self._safely("artifacts", self.workspace.after, None, STATE.note)
        if artifacts:
            report["artifacts"] = artifacts
        report["type"] = "done"
        report["cell"] = cell
        # A fork that was made within the cell has another than the cell began with.
        report["nonce"] = STATE.nonce
        if STATE.notes:
            report["notes"] = STATE.notes
        return report

    def _answer(self, report):
        try:
            send(report)
        except OverflowError:
            # Thousands of long paths or names: how the cell ended matters more.
            report["changes"] = {}
            report["artifacts"] = []
            report["notes"] = ["the report was too long; changes and artifacts are left out"]
            send(report)
        STATE.begin(0, "")

    def _safely(self, what, action, otherwise, *args):
        """Bookkeeping that fails is left out of the report; it never costs the report itself."""
        try:
            return action(*args)
        except Exception as error:
            STATE.note(f"{what}: {type(error).__name__}")
            return otherwise

    def _end_user_child(self, report):
        """A child that the cell forked came to the cell's end: it ends as a program would."""
        if report["end"] == "ok":
            _exit(0)
        if report["end"] == "exit":
            _exit(report["exit_code"] & 0xFF)
        self.streams.write_error(report["exception"]["traceback"])
        _exit(1)

    def seed(self, values):
        """Binds the caller's values; returns the names that were refused, with the reason."""
        main = self.namespaces.main
        refused = {}
        for name, value in values.items():
            if not name.isidentifier():
                refused[name] = "not an identifier"
            elif _iskeyword(name):
                refused[name] = "a keyword of Python"
            elif name.startswith("__"):
                refused[name] = "reserved: it starts with two underscores"
            elif name in main.names:
                refused[name] = "already bound"
            else:
                main.names[name] = value
                main.manifest.bind_seed(name)
        return refused


_prepared = []


def prepare(workspace="/workspace"):
    """In the template: builds what a session needs, so that its process finds it ready."""
    if not _prepared:
        _prepared.append(Session(workspace))
        rehearse(_prepared[0], rounds=20)
        unshield()  # the template waits for SIGCHLD


def serve(control=3, interrupts=4, workspace="/workspace", checkpoints="off"):
    """Runs a session on these descriptors; the walls, if any, are already around us."""
    session = _prepared.pop() if _prepared else Session(workspace)
    if session.workspace.root != workspace:
        session.workspace = Workspace(workspace)
        session.namespaces.move(lambda _: workspace, workspace)
    session.begin(control, interrupts, checkpoints)
    session.serve()
