//! H: a session and its forks: their processes, their cgroups, and what one sees of the host by its own `/proc`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use belljar_sandbox::{Error, Limits, Session};

use crate::harness::{Case, Severity};
use crate::oracle::Kernel;

/// What each may have, in these cases.
const PROCESSES: u64 = 32;

async fn small(case: &Case) -> Session {
    case.session_with(Limits {
        processes: PROCESSES,
        ..Limits::default()
    })
    .await
}

async fn fork(session: &Session) -> Session {
    session.fork(1).await.unwrap().remove(0)
}

/// `spawn()` makes processes until it can't, and returns how many. Each does `begin()` first.
const SPAWN: &str = r"
import os, signal, time
begin = lambda: None
def spawn():
    made = failed = 0
    while made < 500 and failed < 5:
        try: child = os.fork()
        except BlockingIOError:
            failed += 1
            time.sleep(0.02)
            continue
        if child == 0:
            try: begin()
            finally:
                while True: signal.pause()
        made += 1
    return made
";

#[tokio::test(flavor = "multi_thread")]
async fn h10_descriptors_that_a_fork_is_made_with() {
    let case = Case::begin(
        "H10",
        Severity::PeerDos,
        "keep every descriptor that comes in for a fork, and have children write to them to get into the fork's cgroups",
        "pipes, a socket, and rules of Landlock; no descriptor of a cgroup, and as many processes as without a fork",
    )
    .await;
    let session = small(&case).await;
    let keep = r#"
import belljar_guest.forks as forks, re
kept = []
receive = forks._receive
def receive_and_keep():
    room, fds = receive()
    kept.extend((os.readlink(f"/proc/self/fd/{fd}"), os.dup(fd)) for fd in fds)
    return room, fds
forks._receive = receive_and_keep
def begin():
    for name, fd in kept:
        if not name.startswith(("pipe:", "socket:")):
            try: os.write(fd, b"0")
            except OSError: pass
"#;
    case.printed(&session, format!("{SPAWN}{keep}")).await;
    let fork = fork(&session).await;
    let text = case
        .printed(
            &session,
            "print(*[re.sub(r'\\d+', 'N', name) for name, _ in kept])\nprint(spawn())",
        )
        .await;
    assert_eq!(
        text,
        format!(
            "socket:[N] pipe:[N] pipe:[N] pipe:[N] anon_inode:[landlock-ruleset]\n{}\n",
            PROCESSES - 1
        )
    );
    case.end([fork, session]).await;
}

/// Writes ids of processes to cgroups, as somebody would who had descriptors of them.
fn move_all(processes: &BTreeSet<u32>, cgroups: &[PathBuf]) {
    for cgroup in cgroups {
        for process in processes {
            std::fs::write(cgroup.join("cgroup.procs"), process.to_string()).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h11_the_limit_above() {
    let case = Case::begin(
        "H11",
        Severity::PeerDos,
        "processes are moved into a fork's cgroups by other means, and the session makes new ones, again and again",
        "session and fork have no more processes than both together may have",
    )
    .await;
    let session = small(&case).await;
    case.printed(&session, SPAWN).await;
    let fork = fork(&session).await;
    let (own, forks) = (Kernel::from_session(&session), Kernel::from_session(&fork));
    let interpreter = own.members();
    let mut made = 0;
    for _ in 0..4 {
        let text = case.printed(&session, "print(spawn())").await;
        made += text.trim().parse::<u64>().unwrap();
        let children: BTreeSet<u32> = own.members().difference(&interpreter).copied().collect();
        move_all(&children, &forks.cgroups);
    }
    // Two of them are the interpreters.
    assert_eq!(made, 2 * PROCESSES - 2);
    // With the fork's processes gone there is room again.
    case.end([fork, session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h12_a_fork_that_is_another() {
    let case = Case::begin(
        "H12",
        Severity::Lateral,
        "a fork that is being made says that its process is init, the process of another fork, one that is not there, or no process at all",
        "it is not made; the other fork is what it was, in its own cgroups, and the session makes forks again",
    )
    .await;
    let session = small(&case).await;
    let other = fork(&session).await;
    let before = Kernel::from_session(&other).members();
    let theirs = case.printed(&other, "import os\nprint(os.getpid())").await;
    let lie = r"
import belljar_guest.forks as forks
to_json = forks.to_json
def lie(pid):
    forks.to_json = lambda value: to_json({**value, 'pid': pid} if value.get('type') == 'forked' else value)
";
    case.printed(&session, lie).await;
    for pid in ["1", theirs.trim(), "99999", "0", "-1"] {
        case.printed(&session, format!("lie({pid})")).await;
        let made = session.fork(1).await;
        assert!(
            matches!(&made, Err(Error::Fork(why)) if why.contains("ended at once")),
            "{pid}: {made:?}"
        );
        assert_eq!(Kernel::from_session(&other).members(), before);
        assert_eq!(
            case.printed(&other, "print(os.getpid())").await,
            theirs,
            "{pid}"
        );
    }
    case.printed(&session, "forks.to_json = to_json").await;
    let last = fork(&session).await;
    assert_eq!(case.printed(&last, "print(1)").await, "1\n");
    case.end([last, other, session]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h13_each_pays_for_itself() {
    const MEGABYTES: u64 = 24;
    let case = Case::begin(
        "H13",
        Severity::PeerDos,
        "forks of a session with a full workspace, each of which makes as many processes as it can",
        "each has its own limit, exactly; the copy of the workspace is charged to the fork, and not to the session",
    )
    .await;
    let session = small(&case).await;
    let fill = format!("{SPAWN}open('big', 'wb').write(os.urandom({MEGABYTES} << 20))");
    case.printed(&session, fill).await;
    let memory = |session: &Session| -> u64 {
        let files = ["memory.usage_in_bytes", "memory.current"];
        let cgroups = Kernel::from_session(session).cgroups;
        let found = cgroups
            .iter()
            .flat_map(|cgroup| files.map(|file| cgroup.join(file)));
        let mut texts = found.filter_map(|path| std::fs::read_to_string(path).ok());
        texts.next().unwrap().trim().parse().unwrap()
    };
    let before = memory(&session);
    let forks = session.fork(2).await.unwrap();
    let grown = memory(&session).saturating_sub(before);
    assert!(grown < 8 << 20, "{grown}");
    for one in forks.iter().chain([&session]) {
        assert!(memory(one) >= MEGABYTES << 20, "{}", memory(one));
        let text = case.printed(one, "print(spawn())").await;
        assert_eq!(text, format!("{}\n", PROCESSES - 1));
    }
    case.end(forks.into_iter().chain([session])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g20_what_proc_says_of_the_host() {
    let case = Case::begin(
        "G20",
        Severity::HostLeak,
        "read mountinfo, mounts and mountstats of every process; search all that /proc says of itself for paths, process ids and users of the host",
        "no mount is listed anywhere; nothing of the host's engine directory, its process id or the session's user there is found",
    )
    .await;
    let code = r#"
import os
def read(path):
    try:
        with open(path, "rb", buffering=0) as file: return file.read(1 << 20)
    except OSError: return b""
lists = [f"/proc/{name}/{what}" for name in os.listdir("/proc") if name.isdigit() or name in ("self", "thread-self")
         for what in ("mountinfo", "mounts", "mountstats")]
print(len(lists) >= 9, sum(len(read(path)) for path in ["/proc/mounts", *lists]))
"#;
    let control = case.control(code).await;
    assert!(
        control.stdout.starts_with("True ") && !control.stdout.ends_with(" 0\n"),
        "{control:?}"
    );
    let session = case.session().await;
    assert_eq!(case.printed(&session, code).await, "True 0\n");
    let children = "import subprocess, sys\nprint(subprocess.run(['cat', '/proc/self/mountinfo', '/proc/1/mountinfo', f'/proc/{os.getpid()}/mounts'], capture_output=True).stdout)";
    assert_eq!(case.printed(&session, children).await, "b''\n");
    let member = case.members(&session).into_iter().next().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{member}/status")).unwrap();
    let uid = status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .to_owned();
    let mut needles = vec![
        format!("belljar-{}-", std::process::id()),
        format!("/belljar-{}/", rustix::process::getuid().as_raw()),
    ];
    // An ordinary user's sessions have that user's id, which may be any number.
    if belljar_walls::has_admin_capability() {
        assert!(uid.len() > 6, "{uid}");
        needles.push(uid);
    }
    let search = format!(
        r#"
needles = {needles:?}
found, looked = set(), 0
skipped = ("/proc/self/task", "/proc/self/map_files", "/proc/self/fd", "/proc/self/cwd", "/proc/self/root")
for top in ("/proc/self", "/proc/self/fdinfo", "/proc/self/net", "/proc/self/attr", "/proc/sys/kernel", "/proc/sys/fs"):
    for name in os.listdir(top):
        path = f"{{top}}/{{name}}"
        if path in skipped or os.path.isdir(path) or name in ("mem", "pagemap", "environ"): continue
        text = read(path)
        looked += 1
        # What this cell itself says is in no file.
        found.update((path, needle) for needle in needles if needle.encode() in text)
print(looked > 60, found)
"#
    );
    assert_eq!(case.printed(&session, search).await, "True set()\n");
    case.end([session]).await;
}
