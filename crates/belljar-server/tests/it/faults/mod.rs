//! Every write of every store, with every fault of the disk under it: what a client sees, and what holds afterwards.
//!
//! The faults are real where the kernel can make them: a file system of a few megabytes that is filled, a limit on the
//! size of files under which each write fails, a mount that is made read-only. The rest is injected by failpoints. All
//! of it happens in a process of its own, with mounts of its own, which takes root. The table that comes out is
//! `docs/faults.md`; `BELLJAR_WRITE_FAULTS=1` writes it.

mod writes;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use belljar_journal::failpoint;
use belljar_server::{Scope, ServerOptions};
use belljar_test_model::{Recorded, Scripted, ScriptedModel};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::runs::{answer, client, code, offering};
use crate::support::{Ask as _, Client, World, world_in};
use writes::{Disk, WRITES};

/// A test binary again, as a process with small disks: that of the data, and that of the engine.
const SCRIPT: &str = r#"
mount -t tmpfs -o size=24m,mode=700 belljar-data "$1" &&
mount -t tmpfs -o size=24m,mode=700 belljar-engine "$2" || exit 90
trap '' XFSZ
TMPDIR=$2 DATA_DISK=$1 exec "$3" --exact "$4" --ignored --nocapture
"#;

const PAGE: &str = "../../docs/faults.md";

/// Runs an ignored test of this binary as root of small disks; what it printed.
pub(crate) fn on_small_disks(test: &str) -> String {
    let is_root = rustix::process::geteuid().is_root();
    assert!(
        is_root,
        "file systems are mounted for this test: run it as root"
    );
    let (data, engine) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .args(["sh", "-c", SCRIPT, "sh"])
        .args([data.path(), engine.path()])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{errors}");
    assert!(printed.contains("1 passed"), "{printed}\n{errors}");
    printed
}

/// The table of all of them, which is a page of the documentation.
#[test]
fn waits_every_write_of_every_store_survives_every_fault() {
    let printed = on_small_disks("faults::matrix");
    let rows = printed.lines().filter(|line| line.starts_with("| "));
    let mut page = String::from(
        "# Faults of the disk\n\n\
         What a client sees when a write of the service fails, and what holds afterwards. This page is written by a test\n\
         (`BELLJAR_WRITE_FAULTS=1 cargo nextest run -p belljar-server --test it -E 'test(faults::waits)'`), which puts\n\
         every fault under every write of a running service. *Full disk* is a file system of 24 MB without a free\n\
         block. *Failed write* is a limit on the size of files, under which the kernel refuses each write. *Read-only*\n\
         is a mount. *Injected* errors are returned by failpoints in place of the write: ENOSPC, EIO, EROFS.\n\n\
         In every case the service works again by itself as soon as the fault is gone, and at the end a second service\n\
         with the same data has every key and every run that was acknowledged.\n\n\
         | store | write | fault | the client saw | what held |\n|---|---|---|---|---|\n",
    );
    for row in rows {
        let _ = writeln!(page, "{row}");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    if std::env::var_os("BELLJAR_WRITE_FAULTS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/faults.md says something else; BELLJAR_WRITE_FAULTS=1 writes it anew:\n{page}"
    );
}

/// A write that nobody has thought of here would be in no row.
#[test]
fn every_failpoint_is_in_the_table() {
    let mut found = BTreeSet::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for name in ["belljar-journal", "belljar-agent", "belljar-server"] {
        let mut left = vec![crates.join(name).join("src")];
        while let Some(path) = left.pop() {
            if path.is_dir() {
                let entries = fs::read_dir(&path).unwrap();
                left.extend(entries.map(|entry| entry.unwrap().path()));
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for before in [
                "fail(\"",
                "store.write(\"",
                "store.act(\"",
                "own.write(\"",
                "begin(&self.writer, \"",
            ] {
                let after = text.split(before).skip(1);
                found.extend(after.map(|after| after.split('"').next().unwrap().to_owned()));
            }
        }
    }
    let points = WRITES.iter().filter_map(|write| write.point);
    let points = points.chain(UNSEEN).chain(OF_CLUSTERS);
    let known: BTreeSet<String> = points.map(str::to_owned).collect();
    assert_eq!(found, known);
}

/// Writes that only nodes of a cluster make, to its database: `.ci/cluster-faults service` has their faults.
const OF_CLUSTERS: [&str; 2] = ["tenants.change_keys", "tenants.claim_key"];

/// Writes that no client sees, so they are in no row: of a service that stops, and the last uses of keys.
const UNSEEN: [&str; 3] = [
    "tenants.keep_sessions",
    "tenants.keep_request_keys",
    "tenants.keep_uses",
];

/// A disk that is full when the service stops costs sessions, and nothing else: the service ends in time, and the next
/// one has what was saved, says what was not, and works.
#[test]
fn waits_a_service_stops_on_a_full_disk() {
    on_small_disks("faults::stops");
}

#[tokio::test]
#[ignore = "it is the child of the test above, which gives it small disks"]
async fn stops() {
    let data = tempfile::tempdir_in(std::env::var("DATA_DISK").unwrap()).unwrap();
    let mut world = world_in(data, ServerOptions::default()).await;
    let mut client = world.client("a").await;
    for fault in [Fault::Full, Fault::Failed]
        .into_iter()
        .chain([28, 5, 30].map(|errno| Fault::Injected("", errno)))
    {
        let [asleep, awake] = [client.session().await, client.session().await];
        for session in [&asleep, &awake] {
            client.run(session, "x = 1").await;
        }
        let sleep = client.post(&format!("{asleep}/hibernate"), json!({}));
        sleep.with(200).await;
        match fault {
            Fault::Full => fill(&ballast(Disk::Data)),
            Fault::Failed => limit_files(Some(0)),
            Fault::Injected(_, errno) => failpoint::arm("tenants.keep_sessions", errno),
            Fault::ReadOnly => unreachable!(),
        }
        let data = world.ends().await;
        match fault {
            Fault::Full => fs::remove_file(ballast(Disk::Data)).unwrap(),
            Fault::Failed => limit_files(None),
            _ => assert!(failpoint::disarm() > 0),
        }
        world = world_in(data, ServerOptions::default()).await;
        client = world.client_by(client.key.clone());
        for session in [&asleep, &awake] {
            let shown = client.get(session).send().await.unwrap();
            match shown.status().as_u16() {
                404 => continue,
                status => assert_eq!(status, 200),
            }
            let shown: serde_json::Value = shown.json().await.unwrap();
            if shown["state"] == "ended" {
                assert!(shown["lost_because"].is_string(), "{shown:#}");
            } else {
                assert_eq!(client.printed(session, "print(x)").await, "1\n");
            }
            client.delete(session).with(204).await;
        }
        let files = world.data.path().join("sessions").read_dir().unwrap();
        assert_eq!(files.count(), 0);
    }
    world.ends().await;
}

/// What can happen to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Full,
    Failed,
    ReadOnly,
    Injected(&'static str, i32),
}

impl Fault {
    const ALL: [Self; 6] = [
        Self::Full,
        Self::Failed,
        Self::ReadOnly,
        Self::Injected("ENOSPC", 28),
        Self::Injected("EIO", 5),
        Self::Injected("EROFS", 30),
    ];

    fn name(self) -> String {
        match self {
            Self::Full => "full disk".to_owned(),
            Self::Failed => "failed write".to_owned(),
            Self::ReadOnly => "read-only".to_owned(),
            Self::Injected(name, _) => format!("injected {name}"),
        }
    }

    fn begin(self, desk: &Desk, on: Disk, point: Option<&'static str>) {
        match self {
            Self::Full => fill(&ballast(on)),
            Self::Failed => limit_files(Some(0)),
            Self::ReadOnly => {
                let data = desk.world.data.path();
                mount(&["--bind".as_ref(), data.as_ref(), data.as_ref()]);
                mount(&["-o".as_ref(), "remount,bind,ro".as_ref(), data.as_ref()]);
            }
            Self::Injected(_, errno) => failpoint::arm(point.unwrap(), errno),
        }
    }

    fn end(self, desk: &Desk, on: Disk) {
        match self {
            Self::Full => fs::remove_file(ballast(on)).unwrap(),
            Self::Failed => limit_files(None),
            Self::ReadOnly => {
                let data = desk.world.data.path();
                let done = Command::new("umount").arg("--lazy").arg(data).status();
                assert!(done.unwrap().success());
            }
            Self::Injected(..) => assert!(failpoint::disarm() > 0, "the failpoint was not reached"),
        }
    }
}

fn mount(arguments: &[&std::ffi::OsStr]) {
    assert!(
        Command::new("mount")
            .args(arguments)
            .status()
            .unwrap()
            .success()
    );
}

/// Takes every free block of a file system.
fn fill(ballast: &Path) {
    let mut file = File::create_new(ballast).unwrap();
    let mut chunk = 1 << 20;
    while chunk > 0 {
        if file.write_all(&vec![0; chunk]).is_err() {
            chunk /= 2;
        }
    }
}

/// Lets no write of this process to a file succeed, or lets all do.
fn limit_files(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    let current = bytes.or(maximum);
    setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
}

/// A service on small disks, and its users.
struct Desk {
    world: World,
    client: Client,
    admin: Client,
    _model: ScriptedModel,
}

/// The file that fills a disk.
fn ballast(on: Disk) -> PathBuf {
    let directory: PathBuf = match on {
        Disk::Data => std::env::var("DATA_DISK").unwrap().into(),
        Disk::Engine => std::env::temp_dir(),
    };
    directory.join("ballast")
}

/// A cell that takes a moment and writes a file, and an answer once it has run.
fn slow_run(request: &Recorded) -> Scripted {
    let talk = request.json().to_string();
    if talk.contains("it is written") {
        return answer("Done.");
    }
    let wait = if talk.contains("Slowly") {
        "import time\ntime.sleep(1)\n"
    } else {
        ""
    };
    code(&format!(
        "{wait}open('one', 'w').write('1')\nprint('it', 'is', 'written')"
    ))
}

#[tokio::test]
#[ignore = "it is the child of the test above, which gives it small disks"]
#[allow(clippy::print_stdout, reason = "a child reports by its output")]
async fn matrix() {
    let model = ScriptedModel::react(slow_run).unwrap();
    let data = tempfile::tempdir_in(std::env::var("DATA_DISK").unwrap()).unwrap();
    let world = world_in(data, offering(&model)).await;
    let mut desk = Desk {
        client: client(&world, "a").await,
        admin: world.admin(&Scope::ALL).await,
        world,
        _model: model,
    };
    let (mut keys, mut runs) = (Vec::new(), Vec::new());
    for write in WRITES {
        for fault in Fault::ALL {
            if !write.meets(fault) {
                continue;
            }
            let about = format!("{} / {} / {}", write.store, write.what, fault.name());
            eprintln!("{about}");
            let target = write.prepare(&desk).await;
            fault.begin(&desk, write.disk, write.point);
            let saw = write.act(&desk, &target).await;
            fault.end(&desk, write.disk);
            let held = write.works_again(&desk, &target, &saw, &about).await;
            keys.extend(held.key);
            runs.extend(held.run);
            println!(
                "\n| {} | {} | {} | {saw} | {} |",
                write.store,
                write.what,
                fault.name(),
                held.words
            );
        }
    }
    // All of what was acknowledged is on disk.
    let key = desk.client.key.clone();
    let model = ScriptedModel::react(slow_run).unwrap();
    let data = desk.world.ends().await;
    desk.world = world_in(data, offering(&model)).await;
    desk.client = desk.world.client_by(key);
    for key in keys {
        desk.client.with_key(&key).get("/v1/me").with(200).await;
    }
    for run in runs {
        desk.client.until(&run, "answered").await;
    }
    desk.world.ends().await;
}
