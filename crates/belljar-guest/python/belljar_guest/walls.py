"""What a session's process does between the fork and the first byte of user code.

The system calls are prepared in the template, so that the child only makes them: each page that it
touches is a page it no longer shares.
"""

from belljar_guest import BUILTINS as __builtins__

import _signal
import ctypes
import errno
import gc
import os
import resource
import sys

from belljar_guest import blas
from belljar_guest.checkpoints import MEMORY_SCORE
from belljar_guest.reseed import reseed, reseed_restored
from belljar_guest.state import STATE
from belljar_guest.wire import frame_lengths, to_json

_libc = ctypes.CDLL(None, use_errno=True)
_setns = _libc.setns
_setns.argtypes = [ctypes.c_int, ctypes.c_int]
_unshare = _libc.unshare
_unshare.argtypes = [ctypes.c_int]
_prctl = _libc.prctl
_prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
_capset = _libc.capset
_capset.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
_mount = _libc.mount
_mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]
_syscall = _libc.syscall
_syscall.argtypes = [ctypes.c_long] * 4
_syscall.restype = ctypes.c_long

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
# In the order in which the host sends them. The user namespace is entered last: the others belong
# to the one that is left with it.
_SESSION = (CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS)

# Where the spawner put a mount namespace that is empty.
EMPTY_NAMESPACE = 4

_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_MODE_FILTER = 2
# The same numbers on every architecture.
_SYS_CLOSE_RANGE = 436
_SYS_LANDLOCK_CREATE_RULESET = 444
_SYS_LANDLOCK_RESTRICT_SELF = 446

# struct __user_cap_header_struct (version 3, this thread) and two empty data structs.
_NO_CAPS_HEADER = (ctypes.c_uint32 * 2)(0x20080522, 0)
_NO_CAPS = (ctypes.c_uint32 * 6)()


def _last_capability():
    try:
        with open("/proc/sys/kernel/cap_last_cap") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 63  # the kernel refuses those that it doesn't have


class _Program(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def _seccomp_program():
    """The filter of system calls, made by the host."""
    path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "seccomp.bpf")
    with open(path, "rb") as file:
        steps = file.read()
    return _Program(len(steps) // 8, steps)


# Refused accesses are no news for the host's audit log, which hostile code could fill with them.
# The flags (no log of this program, none of nested rules) came with version 7.
_LANDLOCK_QUIET = 5 if _syscall(_SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1) >= 7 else 0
_SECCOMP_PROGRAM = _seccomp_program()
_SECCOMP_ADDRESS = ctypes.addressof(_SECCOMP_PROGRAM)
_CAPABILITIES = range(_last_capability() + 1)
_LIMITS = (
    ("core", resource.RLIMIT_CORE),
    ("signals", resource.RLIMIT_SIGPENDING),
    ("open_files", resource.RLIMIT_NOFILE),
    ("file_size", resource.RLIMIT_FSIZE),
    ("data", resource.RLIMIT_DATA),
    ("processes", resource.RLIMIT_NPROC),
)


def check(result):
    """Raises for a failed system call."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def setns(fd, kinds):
    check(_setns(fd, kinds))


def unshare(kinds):
    check(_unshare(kinds))


def mount(source, target, kind, flags=0, data=None):
    check(_mount(source, target, kind, flags, data))


def enter(workspace, namespaces, rules, control, interrupts, stdout, stderr, cgroups, request):
    """Moves this process into a session's namespaces and under its filters, given as descriptors.

    Any failure is reported on `control` and ends the process: never run with a wall missing.
    """
    step = "signals"
    try:
        _plain_signals()
        step = "join cgroups"
        for fd in cgroups:
            os.write(fd, b"0")
        step = "cgroup namespace"
        unshare(CLONE_NEWCGROUP)

        step = "supplementary groups"
        try:
            os.setgroups([])
        except PermissionError:
            pass  # the namespace forbids it, so there are none to give up
        step = "join namespaces"
        user, *others = zip(namespaces, _SESSION)
        for fd, kind in reversed(others):
            setns(fd, kind)
        step = "hide the list of mounts"
        root = os.open("/", os.O_PATH | os.O_CLOEXEC)
        setns(EMPTY_NAMESPACE, CLONE_NEWNS)
        os.chdir(root)
        os.chroot(".")
        step = "join the user namespace"
        setns(*user)

        for step in _give_up_rights(request["uid"], request["gid"], request["limits"]):
            pass

        # After the last privileged call, before the descriptors are in their places: what follows
        # is already under both.
        if request["filters"]:
            step = "Landlock"
            restrict(rules)
            step = "seccomp"
            _filter_calls()

        step = "process session"
        os.setsid()
        step = "descriptors"
        control = _settle(control, interrupts, stdout, stderr)
        step = "workspace"
        _begin_in(workspace, request["variables"])
    except BaseException as error:
        fault(control, f"{step}: {type(error).__name__}: {error}")


def inhabit(workspace, control, interrupts, stdout, stderr, request):
    """Makes this process the session of a container, whose engine has built the other walls.

    Any failure is reported on `control` and ends the process: never run with a wall missing.
    """
    step = "signals"
    try:
        _plain_signals()
        STATE.steward = True
        step = "memory score"
        _write_file("/proc/self/oom_score_adj", MEMORY_SCORE)
        step = "supplementary groups"
        os.setgroups([])
        for step in _give_up_rights(request["uid"], request["gid"], request["limits"]):
            pass
        if request["filters"]:
            step = "seccomp"
            _filter_calls()
        step = "process session"
        os.setsid()
        step = "descriptors"
        control = _settle(control, interrupts, stdout, stderr)
        step = "workspace"
        _begin_in(workspace, request["variables"])
        reseed_restored()
    except BaseException as error:
        fault(control, f"{step}: {type(error).__name__}: {error}")


def become_helper(channel, uid, gid, filters):
    """Makes this process one that reaches files as the session's user does. Returns the new
    `channel`, the only descriptor that it keeps. Raises where a wall can't be entered."""
    _plain_signals()
    # A file that there is no memory for costs this process, and not the session.
    _write_file("/proc/self/oom_score_adj", b"1000")
    # First of all, since code of the session is the same user: what it could ever reach into has
    # nothing of the steward's.
    null = os.open("/dev/null", os.O_RDWR)
    channel = _settle(channel, null, null, null)
    os.close(4)
    os.setsid()
    os.setgroups([])
    for _ in _give_up_rights(uid, gid, limits=None, dumpable=0):
        pass
    if filters:
        _filter_calls()
    return channel


def stay(workspace, control, interrupts, stdout, stderr, request):
    """The entrance without walls: an ordinary process of the host's user, in a directory."""
    try:
        _plain_signals()
        # The limit on processes counts all of the user's, not those of the session.
        _limit({**request["limits"], "processes": None})
        os.setsid()
        control = _settle(control, interrupts, stdout, stderr)
        _begin_in(workspace, request["variables"])
    except BaseException as error:
        fault(control, f"{type(error).__name__}: {error}")


def _give_up_rights(uid, gid, limits, dumpable=1):
    """Another user, its limits, no capabilities. Yields the name of each step before it."""
    # Before the change of user, which takes the right to do it.
    yield "capability bounding set"
    for capability in _CAPABILITIES:
        check(_prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0))
    yield "user and group"
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    yield "limits"
    if limits is not None:
        _limit(limits)
    yield "capabilities"
    cleared = _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    if cleared < 0 and ctypes.get_errno() != errno.EINVAL:  # gVisor has none
        check(cleared)
    check(_capset(_NO_CAPS_HEADER, _NO_CAPS))
    check(_prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    check(_prctl(_PR_SET_DUMPABLE, dumpable, 0, 0, 0))


def _filter_calls():
    check(_prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _SECCOMP_ADDRESS, 0, 0))


def restrict(rules):
    """Puts this process under further rules of Landlock."""
    check(_syscall(_SYS_LANDLOCK_RESTRICT_SELF, rules, _LANDLOCK_QUIET, 0))


def _plain_signals():
    # `_signal`, because `signal` wraps every number in an enum.
    _signal.set_wakeup_fd(-1)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    # A file over its size limit is then an OSError and not the end of the session.
    _signal.signal(_signal.SIGXFSZ, _signal.SIG_IGN)


def _limit(limits):
    for name, kind in _LIMITS:
        wanted = limits[name]
        if wanted:
            hard = resource.getrlimit(kind)[1]
            if hard != resource.RLIM_INFINITY:
                wanted = min(wanted, hard)
            resource.setrlimit(kind, (wanted, wanted))
    growth = limits.get("growth")
    if growth:
        with open("/proc/self/statm") as file:
            mapped = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + growth, mapped + growth))


def _settle(control, interrupts, stdout, stderr):
    """Puts the descriptors in their places and closes all others; returns the new `control`."""
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    control = os.dup2(control, 3, False)
    os.dup2(interrupts, 4, False)
    # The last is what gVisor takes at most, and more than the kernel ever has.
    check(_syscall(_SYS_CLOSE_RANGE, 5, 0x7FFFFFFF, 0))
    os.umask(0o022)
    return control


_usual = {}


def expect(variables):
    """In the template: most sessions will have these environment variables."""
    _usual.update(variables)
    os.environ.update(variables)
    blas.follow()


def _begin_in(workspace, variables):
    if variables != _usual:
        os.environ.update(variables)
        blas.follow()
    os.chdir(workspace)
    sys.path.insert(0, workspace)
    reseed()
    gc.enable()


def _write_file(path, data):
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, data)
    finally:
        os.close(file)


def fault(control, detail):
    """Reports to the host that a wall could not be entered, and ends."""
    try:
        head = to_json({"type": "fault", "detail": detail})
        os.write(control, frame_lengths(len(head), 0) + head)
    finally:
        os._exit(70)
