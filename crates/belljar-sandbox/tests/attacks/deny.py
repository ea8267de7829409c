# Becomes another program that the kernel refuses one system call, as a container or an older kernel
# would: deny.py NUMBER ERROR ARGUMENT MASK VALUE program… (refused where argument & mask == value).
import ctypes, os, struct, sys

number, error, argument, mask, value = map(int, sys.argv[1:6])
step = lambda code, yes, no, operand: struct.pack("HBBI", code, yes, no, operand)
steps = b"".join([
    step(0x20, 0, 0, 0),  # the number
    step(0x15, 0, 4, number),
    step(0x20, 0, 0, 16 + 8 * argument),
    step(0x54, 0, 0, mask),
    step(0x15, 0, 1, value),
    step(0x06, 0, 0, 0x00050000 | error),
    step(0x06, 0, 0, 0x7FFF0000),
])


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


libc = ctypes.CDLL(None, use_errno=True)
program = Program(len(steps) // 8, steps)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0  # PR_SET_SECCOMP
os.execv(sys.argv[6], sys.argv[6:])
