//! H: processes, signals, /proc.

use std::collections::BTreeSet;

use belljar_sandbox::protocol::Cause;

use crate::g_kernel::with_calls;
use crate::harness::{Case, Severity, parent_id};
use crate::support::{data_environment, inits, plain_builder, processes_below, template};

#[tokio::test(flavor = "multi_thread")]
async fn h1_signals_to_everyone() {
    let case = Case::begin(
        "H1",
        Severity::Lateral,
        "kill(-1, 9), kill(1, 9), killpg, kill(0, 9)",
        "only the session's own processes get them; its init lives",
    )
    .await;
    let session = case.session().await;
    let code = "import os, time\nchild = os.fork()\nif child == 0: time.sleep(60)\nos.kill(-1, 9)\nprint(os.waitpid(child, 0)[1], flush=True)\ntry: os.kill(1, 9)\nexcept PermissionError: pass\nprint('init lives', flush=True)\nos.killpg(0, 9)";
    let outcome = case.fails(&session, code).await;
    assert_eq!(outcome.stdout.text, "9\ninit lives\n", "{outcome:?}");
    assert_eq!(outcome.exit_code, -9, "{outcome:?}");
    let other = case.session().await;
    let outcome = case.fails(&other, "import os; os.kill(0, 9)").await;
    assert_eq!(outcome.exit_code, -9, "{outcome:?}");
    case.end([session, other]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h2_signals_to_every_number() {
    let case = Case::begin(
        "H2",
        Severity::Lateral,
        "SIGKILL to every process id: 1 to 100,000, the powers of two, those of the host, the template and the sibling",
        "ESRCH for all but init, which is EPERM; nobody else is there",
    )
    .await;
    let session = case.session().await;
    let outside: Vec<String> = processes_below(std::process::id())
        .into_iter()
        .chain([std::process::id(), template().unwrap()])
        .map(|pid| pid.to_string())
        .collect();
    let outside = outside.join(", ");
    let find = format!(
        r#"
import ctypes, errno, os
kill = ctypes.CDLL(None, use_errno=True).kill
own = os.getpid()
pids = [*range(1, 100_001), *(2**n - 1 for n in range(17, 31)), *(2**n for n in range(17, 31)), {outside}]
def reached(signal):
    found = set()
    for pid in pids:
        if pid != own and (kill(pid, signal) == 0 or ctypes.get_errno() != errno.ESRCH):
            found.add((pid, errno.errorcode.get(ctypes.get_errno(), "done")))
    return found
"#
    );
    // Process 1 of the control's namespace is a shell that may be asked.
    let control = case.control(&format!("{find}print(reached(0))")).await;
    assert!(control.stdout.contains("(1, '"), "{control:?}");
    assert!(!control.stdout.contains("EPERM"), "{control:?}");
    let attack = format!("{find}print(reached(0), reached(9))");
    assert_eq!(
        case.printed(&session, attack).await,
        "{(1, 'EPERM')} {(1, 'EPERM')}\n"
    );
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h2a_signals_by_other_ways() {
    let case = Case::begin(
        "H2a",
        Severity::Lateral,
        "init by tgkill, sigqueue, a pidfd, the parent's death signal of a child, a timer, a pipe's owner (F_SETOWN)",
        "EPERM, or no signal comes; init lives",
    )
    .await;
    let code = with_calls!(
        r#"
import fcntl, signal, struct
tell("tgkill", 1, 1, 10)
tell("rt_sigqueueinfo", 1, 10, buffer(struct.pack("iii", 10, 0, -1), 128))
tell("pidfd_send_signal", call("pidfd_open", 1, 0), 10, 0, 0)
"#
    );
    // The shell that is process 1 there does not end by them.
    let control = case.control(code).await;
    assert_eq!(
        control.stdout, "tgkill done\nrt_sigqueueinfo done\npidfd_send_signal done\n",
        "{control:?}"
    );
    let session = case.session().await;
    assert_eq!(
        case.printed(&session, code).await,
        "tgkill EPERM\nrt_sigqueueinfo EPERM\npidfd_send_signal EPERM\n"
    );
    // Signals that the kernel sends for a process: the owner of a descriptor gets SIGKILL when
    // something can be read.
    let owner = r"
import fcntl, os, socket
ours, theirs = socket.socketpair()
fcntl.fcntl(ours, fcntl.F_SETOWN, 1)
fcntl.fcntl(ours, 10, 9)  # F_SETSIG
fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC)
theirs.send(b'x')
";
    let before = inits();
    case.printed(&session, owner).await;
    assert_eq!(inits(), before);
    assert_eq!(case.printed(&session, "print(1)").await, "1\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h3_proc() {
    let case = Case::begin(
        "H3",
        Severity::HostLeak,
        "list /proc; read kcore, kmsg, kallsyms, keys, key-users, timer_list, sched_debug, modules, cmdline, interrupts, kpagecount, slabinfo, vmallocinfo",
        "one process, its own; each of the files is absent, empty or refused",
    )
    .await;
    let code = r#"
import errno, os
print(sorted(int(name) for name in os.listdir("/proc") if name.isdigit()) == [os.getpid()])
def read(path):
    try:
        with open(path, "rb") as file:
            return "SEEN" if file.read(64) else "empty"
    except OSError as error:
        return errno.errorcode[error.errno]
found = {}
for name in ("acpi/wakeup", "cmdline", "interrupts", "kallsyms", "kcore", "key-users", "keys", "kmsg", "locks", "kpagecgroup",
             "kpagecount", "kpageflags", "modules", "mtrr", "pagetypeinfo", "sched_debug", "slabinfo",
             "sys/kernel/random/boot_id", "sysrq-trigger", "timer_list", "vmallocinfo"):
    found[name] = read("/proc/" + name)
print({name: result for name, result in found.items() if result not in ("empty", "ENOENT", "EACCES", "EPERM")})
"#;
    let control = case.control(code).await;
    for name in ["cmdline", "kallsyms", "boot_id", "interrupts"] {
        assert!(control.stdout.contains(name), "{control:?}");
    }
    let session = case.session().await;
    assert_eq!(case.printed(&session, code).await, "True\n{}\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_other_processes_in_proc() {
    let case = Case::begin(
        "H4",
        Severity::HostLeak,
        "/proc/1/{mem, maps, environ, cwd, root, exe, fd, …}; the same of its parent, the template and the host",
        "nobody else is there, init neither: the parent's id is 0",
    )
    .await;
    let names = r#"
import errno, os
def read(path):
    for look in (os.readlink, os.listdir, lambda path: open(path, "rb").read(64)):
        try: return look(path) is None or "SEEN"
        except OSError as error: result = errno.errorcode[error.errno]
    return result
names = ("mem", "maps", "smaps", "environ", "auxv", "cwd", "root", "exe", "fd", "fdinfo", "map_files", "ns",
         "pagemap", "syscall", "stack", "io", "personality", "clear_refs", "mountstats")
"#;
    let code = format!("{names}print({{read(f'/proc/1/{{name}}') for name in names}})");
    let control = case.control(&code).await;
    assert!(control.stdout.contains("SEEN"), "{control:?}");
    let session = case.session().await;
    assert_eq!(case.printed(&session, &*code).await, "{'ENOENT'}\n");
    let others: Vec<String> = [std::process::id(), template().unwrap()]
        .into_iter()
        .chain(processes_below(std::process::id()))
        // Small numbers may be those of the session's own processes.
        .filter(|pid| *pid > 2)
        .map(|pid| pid.to_string())
        .collect();
    let code = format!(
        "{names}print(os.getppid(), {{read(f'/proc/{{pid}}/{{name}}') for pid in ({}) for name in names}})",
        others.join(", ")
    );
    let id = parent_id();
    assert_eq!(
        case.printed(&session, code).await,
        format!("{id} {{'ENOENT'}}\n")
    );
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h5_scheduling() {
    let case = Case::begin(
        "H5",
        Severity::PeerDos,
        "real-time scheduling, a higher priority, ioprio_set, sched_setattr",
        "EPERM, or EACCES for a higher priority",
    )
    .await;
    let code = with_calls!(
        r#"
import struct
one = buffer(struct.pack("i", 1))
for policy in (1, 3):  # SCHED_FIFO, SCHED_BATCH
    tell("sched_setscheduler", 0, policy, one if policy == 1 else buffer())
    tell("sched_setattr", 0, buffer(struct.pack("IIQiI", 48, policy, 0, 0, policy == 1), 48), 0)
tell("sched_setparam", 0, buffer())
tell("ioprio_set", 1, 0, 1 << 13 | 4)
tell("setpriority", 0, 0, -5)
tell("setpriority", 1, 0, -5)
tell("setpriority", 2, os.getuid(), -5)
"#
    );
    if let Some(control) = case.control_as_root(code).await {
        // A cgroup may have no real time to give, even to root.
        assert!(control.stdout.matches(" done").count() >= 7, "{control:?}");
    }
    let session = case.session().await;
    assert_eq!(
        case.printed(&session, code).await,
        "sched_setscheduler EPERM\nsched_setattr EPERM\nsched_setscheduler EPERM\nsched_setattr EPERM\nsched_setparam EPERM\nioprio_set EPERM\n\
        setpriority EACCES\nsetpriority EACCES\nsetpriority EACCES\n"
    );
    case.end([session]).await;
}

/// Without a control: not every machine's root may raise limits.
#[tokio::test(flavor = "multi_thread")]
async fn h5a_own_limits() {
    let case = Case::begin(
        "H5a",
        Severity::SelfDos,
        "raise each hard limit of its own; lower all of them",
        "none can be raised, also not by a child; lowering hurts the session alone",
    )
    .await;
    let code = r#"
import os, resource
raised, refused = [], 0
for name in sorted(name for name in dir(resource) if name.startswith("RLIMIT_")):
    kind = getattr(resource, name)
    soft, hard = resource.getrlimit(kind)
    if hard == resource.RLIM_INFINITY:
        continue
    for wanted in (hard + 1, resource.RLIM_INFINITY):
        try: resource.setrlimit(kind, (soft, wanted)); raised.append(name)
        except ValueError as error: refused += "not allowed to raise" in str(error)
        try: resource.prlimit(os.getpid(), kind, (soft, wanted)); raised.append(name)
        except PermissionError: refused += 1
print(raised, refused > 30)
"#;
    let session = case.session().await;
    assert_eq!(case.printed(&session, code).await, "[] True\n");
    let lower = "import resource\nfor name in ('NOFILE', 'NPROC', 'FSIZE', 'CPU', 'STACK', 'AS'):\n    try: resource.setrlimit(getattr(resource, 'RLIMIT_' + name), (0, 0))\n    except Exception: pass\nwhile True: pass";
    let outcome = case.fails(&session, lower).await;
    let expected = Cause::Signal {
        number: 9,
        name: "SIGKILL".into(),
    };
    assert_eq!(outcome.cause, expected, "{outcome:?}");
    case.end([session]).await;
}

/// Init runs as the session's user, and these calls ask for no more. It sleeps for ever, so that
/// nothing of it can be starved.
#[tokio::test(flavor = "multi_thread")]
async fn h5b_limits_of_init() {
    let case = Case::begin(
        "H5b",
        Severity::SelfDos,
        "prlimit, sched_setaffinity, setpriority on init",
        "EPERM for limits; accepted: CPUs and priority of the session's own init, which hardly runs; the session continues and ends as always",
    )
    .await;
    let session = case.session().await;
    let code = with_calls!(
        r#"
for kind in range(16):
    tell("prlimit64", 1, kind, (ctypes.c_ulong * 2)(0, 0), 0)
tell("sched_setaffinity", 1, 8, (ctypes.c_ulong * 1)(1))
tell("setpriority", 0, 1, 19)
"#
    );
    let text = case.printed(&session, code).await;
    assert_eq!(
        text,
        "prlimit64 EPERM\n".repeat(16) + "sched_setaffinity done\nsetpriority done\n"
    );
    let orphans = "import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n        if os.fork() == 0: time.sleep(0.05)\n        os._exit(0)\n    os.wait()\ntime.sleep(0.3)\nprint([name for name in os.listdir('/proc') if name.isdigit()] == [str(os.getpid())])";
    assert_eq!(case.printed(&session, orphans).await, "True\n");
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_h6_orphans() {
    let case = Case::begin(
        "H6",
        Severity::PeerDos,
        "10,000 orphans, a hundred at a time",
        "init takes them and none stays; they count against the session's processes",
    )
    .await;
    let session = case.session().await;
    let watch = case.watch_sibling();
    let code = r#"
import os, subprocess, time
def batch():
    reader, writer = os.pipe()
    # A shell, whose forks are cheaper; its hundred children outlive it until the pipe ends.
    start = f"i=0; while [ $i -lt 100 ]; do (read line) <&{reader} & i=$((i + 1)); done"
    subprocess.run(["sh", "-c", start], pass_fds=[reader])
    os.close(reader)
    orphans = left()
    os.close(writer)
    return orphans
def left():
    return sum(name.isdigit() for name in os.listdir("/proc")) - 1
total = 0
for _ in range(100):
    total += batch()
    for _ in range(1000):
        if left() == 0: break
        time.sleep(0.001)
print(total, left())
"#;
    let outcome = case
        .outcome(
            &session,
            crate::support::timed(code, crate::support::seconds(60.0)),
        )
        .await;
    assert_eq!(outcome.stdout.text, "10000 0\n", "{outcome:?}");
    watch.finish().await;
    assert_eq!(case.members(&session).len(), 1);
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h7_names_of_processes() {
    let case = Case::begin(
        "H7",
        Severity::Integrity,
        "PR_SET_NAME and argv with escapes, line ends, bidirectional marks, and our own names",
        "nothing that we say holds a process's name; a process named belljar-init is not taken for one",
    )
    .await;
    let mut sessions = Vec::new();
    for name in [
        r"b'\x1b]0;evil\x07\nok'",
        r"b'belljar-init'",
        r"b'belljar-keeper'",
        r"'\u202egnp.exe'.encode()",
    ] {
        let session = case.session().await;
        let code = format!(
            "import ctypes, os, time\nlibc = ctypes.CDLL(None)\nname = {name}\nlibc.prctl(15, name, 0, 0, 0)\nif os.fork() == 0: time.sleep(60)\nos._exit(3)"
        );
        let outcome = case.fails(&session, code).await;
        assert_eq!(outcome.exit_code, 3, "{outcome:?}");
        let text = serde_json::to_string(&outcome).unwrap();
        for part in ["evil", "\\u001b", "belljar-", "gnp.exe", "\u{202e}"] {
            assert!(!text.contains(part), "{text}");
        }
        sessions.push(session);
    }
    case.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h8_identity_of_the_host() {
    let case = Case::begin(
        "H8",
        Severity::HostLeak,
        "host name, machine-id, boot_id, addresses of network cards, serial numbers (DMI), users, uuid.getnode",
        "host name `belljar`, loopback alone, one user; no id of the machine or of this boot",
    )
    .await;
    let code = r#"
import errno, os, pwd, re, socket, uuid
def read(path):
    try:
        with open(path) as file: return file.read()
    except OSError as error: return errno.errorcode[error.errno]
print(socket.gethostname(), os.uname().nodename, read("/proc/sys/kernel/hostname").strip(), read("/proc/sys/kernel/domainname").strip())
print([read(path) for path in ("/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/sys/kernel/random/boot_id",
    "/sys/class/dmi/id/product_uuid", "/sys/class/dmi/id/product_serial", "/sys/class/net/eth0/address", "/etc/resolv.conf")])
print(re.findall(r"^\s*(\S+):", read("/proc/net/dev"), re.M), read("/proc/net/arp").count("\n"), read("/proc/net/route").count("\n"))
print([user.pw_name for user in pwd.getpwall()])
# A random node has the multicast bit; the address of a card does not.
print(uuid.getnode() >> 40 & 1)
"#;
    let session = case.session().await;
    let text = case.printed(&session, code).await;
    assert_eq!(
        text,
        "belljar belljar belljar (none)\n\
        ['ENOENT', 'ENOENT', '', 'ENOENT', 'ENOENT', 'ENOENT', 'ENOENT']\n\
        ['lo'] 1 1\n['root', 'belljar', 'nobody']\n1\n"
    );
    // Whatever the host has of these, the session does not.
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert!(boot.len() > 30 && !text.contains(boot.trim()));
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_h8b_names_that_libraries_remember() {
    let case = Case::begin_on(
        plain_builder(data_environment()),
        "H8b",
        Severity::HostLeak,
        "what packages asked of the machine while the template imported them: platform.uname, uuid's node, cached names",
        "the template has no more to tell than a session: its host name is `belljar` too",
    )
    .await;
    let code = r"
import platform, socket, uuid
print(platform.node(), platform.uname().node, socket.gethostname(), uuid.getnode() >> 40 & 1)
";
    let session = case.session().await;
    assert_eq!(
        case.printed(&session, code).await,
        "belljar belljar belljar 1\n"
    );
    case.end([session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h8a_files_that_stay_visible() {
    let case = Case::begin(
        "H8a",
        Severity::HostLeak,
        "every readable file of /proc that is about the machine",
        "accepted: what programs ask for (cpuinfo, meminfo, stat, loadavg, uptime, version, …), and no more than is written down here",
    )
    .await;
    let code = r#"
import os
found = []
for name in sorted(name for name in os.listdir("/proc") if not name.isdigit()):
    path = "/proc/" + name
    if os.path.islink(path) or os.path.isdir(path) and not os.listdir(path):
        continue
    try:
        if os.path.isdir(path) or open(path, "rb").read(1): found.append(name)
    except OSError: pass
print(*found)
"#;
    let session = case.session().await;
    let text = case.printed(&session, code).await;
    let allowed: BTreeSet<&str> = [
        "buddyinfo",
        "bootconfig",
        "bus",
        "cgroups",
        "config.gz",
        "consoles",
        "cpuinfo",
        "crypto",
        "devices",
        "diskstats",
        "dma",
        "driver",
        "dynamic_debug",
        "execdomains",
        "fb",
        "filesystems",
        "iomem",
        "ioports",
        "irq",
        "loadavg",
        "locks",
        "mdstat",
        "meminfo",
        "misc",
        "mtrr",
        "partitions",
        "pressure",
        "schedstat",
        "softirqs",
        "stat",
        "swaps",
        "sys",
        "sysvipc",
        "tty",
        "uptime",
        "version",
        "version_signature",
        "vmstat",
        "zoneinfo",
    ]
    .into();
    let found: BTreeSet<&str> = text.split_whitespace().collect();
    let new: Vec<_> = found.difference(&allowed).collect();
    assert!(new.is_empty() && found.contains("meminfo"), "{new:?}");
    // Addresses in there are for the true root alone.
    let addresses =
        "import re\nprint(set(re.findall(r'\\b[0-9a-f]{8,16}-', open('/proc/iomem').read())))";
    let addresses = case.printed(&session, addresses).await;
    assert!(
        ["{'00000000-'}\n", "{'0000000000000000-'}\n"].contains(&&*addresses),
        "{addresses}"
    );
    case.end([session]).await;
}
