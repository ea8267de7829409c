# Started in throw-away namespaces: makes them harmless for the machine, then becomes the control.
# Everything is read-only and without devices, but for a small scratch directory, /dev/shm, the
# plain devices, and what /proc says of processes.
import ctypes, os, sys

libc = ctypes.CDLL(None, use_errno=True)
READ_ONLY, NO_DEVICES = 1, 4


def check(result):
    if result:
        raise OSError(ctypes.get_errno(), "the control could not be made harmless")


def set_attributes(path, on, off, flags=0):
    attributes = (ctypes.c_uint64 * 4)(on, off, 0, 0)
    check(libc.syscall(442, -100, path, flags, attributes, ctypes.sizeof(attributes)))


def bind(path):
    check(libc.mount(path, path, None, 4096, None))


devices = [b"/dev/null", b"/dev/zero", b"/dev/full", b"/dev/random", b"/dev/urandom"]
machine = [path for path in [b"/proc/sys", b"/proc/sysrq-trigger"] if os.path.exists(path)]
for path in devices + machine:
    bind(path)
set_attributes(b"/", READ_ONLY | NO_DEVICES, 0, flags=0x8000)
set_attributes(b"/proc", 0, READ_ONLY)
for path in devices:
    set_attributes(path, 0, READ_ONLY | NO_DEVICES)
for path in [b"/mnt", b"/dev/shm"]:
    check(libc.mount(b"none", path, b"tmpfs", 0, b"size=64m"))
os.chdir("/mnt")
os.environ["HOME"] = os.environ["TMPDIR"] = "/mnt"
os.execv(sys.executable, [sys.executable, "-I", "-X", "utf8", "-c", sys.argv[1]])
