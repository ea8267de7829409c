# System calls by name, for attacks on the kernel: what the C library has no function for.
import ctypes, errno, os, platform

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
# On x86-64 and on aarch64; one number where they are the same.
NUMBERS = dict(
    acct=(163, 89), add_key=(248, 217), adjtimex=(159, 171), bpf=(321, 280), capset=(126, 91),
    chroot=(161, 51), clock_adjtime=(305, 266), clock_settime=(227, 112), delete_module=(176, 106),
    fanotify_init=(300, 262), finit_module=(313, 273), fsconfig=431, fsmount=432, fsopen=430,
    fspick=433, init_module=(175, 105), io_uring_enter=426, io_uring_register=427,
    io_uring_setup=425, ioperm=(173, None), iopl=(172, None), ioprio_set=(251, 30),
    kcmp=(312, 272), kexec_file_load=(320, 294), kexec_load=(246, 104), keyctl=(250, 219),
    kill=(62, 129), listmount=458, migrate_pages=(256, 238), modify_ldt=(154, None),
    mount=(165, 40), mount_setattr=442, move_mount=429, move_pages=(279, 239),
    name_to_handle_at=(303, 264), open_by_handle_at=(304, 265), open_tree=428,
    perf_event_open=(298, 241), personality=(135, 92), pidfd_getfd=438, pidfd_open=434,
    pidfd_send_signal=424, pivot_root=(155, 41), prlimit64=(302, 261), process_madvise=440,
    process_vm_readv=(310, 270), process_vm_writev=(311, 271), ptrace=(101, 117),
    quotactl=(179, 60), reboot=(169, 142), request_key=(249, 218), rt_sigqueueinfo=(129, 138),
    sched_setaffinity=(203, 122), sched_setattr=(314, 274), sched_setparam=(142, 118),
    sched_setscheduler=(144, 119), seccomp=(317, 277), setdomainname=(171, 162),
    setgroups=(116, 159), sethostname=(170, 161), setns=(308, 268), setpriority=(141, 140),
    settimeofday=(164, 170), statmount=457, swapoff=(168, 225), swapon=(167, 224),
    syslog=(103, 116), tgkill=(234, 131), umount2=(166, 39), unshare=(272, 97),
    userfaultfd=(323, 282), vhangup=(153, 58),
)


def number(name):
    found = NUMBERS[name]
    return found if isinstance(found, int) else found[platform.machine() != "x86_64"]


def call(name, *arguments):
    """The result, or minus the error."""
    long = lambda argument: ctypes.c_long(argument) if isinstance(argument, int) else argument
    result = libc.syscall(ctypes.c_long(number(name)), *map(long, arguments))
    return result if result >= 0 else -ctypes.get_errno()


def tell(name, *arguments):
    """Prints the call's name and `done`, or the error's name."""
    if number(name) is not None:
        result = call(name, *arguments)
        print(name, "done" if result >= 0 else errno.errorcode[-result], flush=True)


def buffer(text=b"", size=256):
    return ctypes.create_string_buffer(text, size)


