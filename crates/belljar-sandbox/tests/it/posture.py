# What a process of a session is to the kernel, as text: compared with posture.golden.
import ctypes, os, re, resource, stat, sys


def lines(path):
    with open(path) as file:
        return file.read().splitlines()


def posture():
    out = []
    tell = lambda *words: out.append(" ".join(map(str, words)))
    tell("ids", os.getresuid(), os.getresgid(), os.getgroups())
    # Every thread is the same; a set with two members would show that one is not.
    wanted = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters")
    threads = set()
    for thread in os.listdir("/proc/self/task"):
        status = dict(line.split(":", 1) for line in lines(f"/proc/self/task/{thread}/status"))
        threads.add(tuple((name, *status[name].split()) for name in wanted))
    for thread in sorted(threads):
        for fields in thread:
            tell("thread", *fields)
    libc = ctypes.CDLL(None)
    tell("dumpable", libc.prctl(3, 0, 0, 0, 0))
    tell("personality", libc.personality(0xFFFFFFFF))
    tell("umask", re.search(r"Umask:\s*(\d+)", "\n".join(lines("/proc/self/status")))[1])
    tell("directory", os.getcwd(), "root", os.readlink("/proc/self/root"))
    try:
        tell("terminal", os.open("/dev/tty", os.O_RDWR))
    except OSError as error:
        tell("terminal", error.strerror)
    for name in ("CORE", "NOFILE", "FSIZE", "NPROC", "SIGPENDING"):
        tell("limit", name, *resource.getrlimit(getattr(resource, f"RLIMIT_{name}")))
    tell("limit DATA", "set" if resource.getrlimit(resource.RLIMIT_DATA)[1] != resource.RLIM_INFINITY else "none")
    for number in sorted(map(int, os.listdir("/proc/self/fd"))):
        try:
            kind = re.sub(r"\d+", "N", os.readlink(f"/proc/self/fd/{number}"))
            inherited = "" if os.get_inheritable(number) else " closed by exec"
            tell("descriptor", number, kind + inherited)
        except OSError:
            pass  # the one that listed the directory
    for name in sorted(os.environ):
        # As many as the host has CPUs, within the limit.
        tell("variable", name, "N" if name == "OPENBLAS_NUM_THREADS" else os.environ[name])
    tell("cgroup", *sorted({line.split(":")[2] for line in lines("/proc/self/cgroup")} - {"/"}))
    tell("root has", *[name for name in ("dev", "etc", "opt", "proc", "tmp", "usr", "var", "workspace", "home", "sys", "run", "boot", "mnt", "srv", "media") if os.path.lexists("/" + name)])
    for name in sorted(os.listdir("/dev")):
        found = os.lstat("/dev/" + name)
        kind = stat.filemode(found.st_mode)
        device = f" {os.major(found.st_rdev)}:{os.minor(found.st_rdev)}" if stat.S_ISCHR(found.st_mode) else ""
        tell("device", name, kind if not kind.startswith("l") else "link", os.readlink("/dev/" + name) if kind.startswith("l") else device.strip())
    for path in ("/proc/keys", "/proc/locks", "/proc/self/mountinfo", "/proc/self/mounts", "/proc/self/mountstats", "/proc/kallsyms", "/proc/cmdline", "/proc/interrupts", "/proc/sys/kernel/random/boot_id", "/proc/kcore", "/proc/kmsg", "/proc/timer_list", "/proc/sysrq-trigger", "/proc/1/environ", "/proc/1/maps"):
        try:
            with open(path, "rb") as file:
                tell("hidden", path, file.read(1) or "empty")
        except OSError as error:
            tell("hidden", path, error.strerror)
    tell("max_user_namespaces", *lines("/proc/sys/user/max_user_namespaces"))
    return "\n".join(out)
