use super::hierarchies::{MemoryRoom, make_v2_tree};
use super::*;

const LIMITS: CgroupLimits = CgroupLimits {
    memory_bytes: 1 << 30,
    processes: 64,
    milli_cpus: 1500,
};

#[test]
fn finds_own_directories_in_a_hybrid_host() {
    let mounts = "30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
        31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        32 30 0:28 /ct /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        33 30 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
        34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let own = "5:memory:/ct/job\n4:cpu,cpuacct:/\n3:pids:/user\n0::/x\n";
    let (version, parents) = Hierarchies::find(mounts, own).choose().unwrap();
    assert_eq!(version, Version::One);
    let first: Vec<_> = parents.iter().map(|p| p[0].to_str().unwrap()).collect();
    assert_eq!(
        first,
        [
            "/sys/fs/cgroup/memory/job",
            "/sys/fs/cgroup/pids/user",
            "/sys/fs/cgroup/cpu,cpuacct",
            "/sys/fs/cgroup/cpu,cpuacct"
        ]
    );
}

/// A second engine in a container finds this process where the first has moved it.
#[test]
fn the_leaf_of_the_host_is_not_its_own_directory() {
    let mounts = "40 30 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    for (own, directory) in [
        ("0::/\n", "/sys/fs/cgroup"),
        ("0::/belljar-host\n", "/sys/fs/cgroup"),
        ("0::/a.scope/belljar-host\n", "/sys/fs/cgroup/a.scope"),
    ] {
        let found = Hierarchies::find(mounts, own).v2.unwrap();
        assert_eq!(found[0], Path::new(directory), "{own}");
    }
}

/// The lowest limit counts, and what is cached of files can be had; by the files of both versions.
#[test]
fn memory_that_cgroups_leave() {
    let top = tempfile::tempdir().unwrap();
    let (own, middle) = (top.path().join("a/b"), top.path().join("a"));
    fs::create_dir_all(&own).unwrap();
    let write = |directory: &Path, files: &[(&str, &str)]| {
        for (name, text) in files {
            fs::write(directory.join(name), text).unwrap();
        }
    };
    write(
        top.path(),
        &[
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory.usage_in_bytes", "5000\n"),
        ],
    );
    let all = [own.clone(), middle.clone(), top.path().to_owned()];
    assert_eq!(MemoryRoom::within(&all), None);
    write(
        &middle,
        &[
            ("memory.limit_in_bytes", "1000\n"),
            ("memory.usage_in_bytes", "900\n"),
            (
                "memory.stat",
                "inactive_file 7\ntotal_inactive_file 300\ntotal_active_file 100\n",
            ),
        ],
    );
    let middle = MemoryRoom {
        limit: 1000,
        available: 500,
    };
    assert_eq!(MemoryRoom::within(&all), Some(middle));
    write(
        &own,
        &[
            ("memory.max", "800\n"),
            ("memory.current", "250\n"),
            ("memory.stat", "anon 1\ninactive_file 20\nactive_file 10\n"),
        ],
    );
    let both = MemoryRoom {
        limit: 800,
        available: 500,
    };
    assert_eq!(MemoryRoom::within(&all), Some(both));
    fs::write(own.join("memory.max"), "max\n").unwrap();
    assert_eq!(MemoryRoom::within(&all), Some(middle));
}

/// A session on plain files.
fn session_at(directory: &Path) -> SessionCgroup {
    for (name, text) in [
        ("cpu.stat", "usage_usec 42\nuser_usec 1\n"),
        ("memory.current", "536870913\n"),
        ("memory.peak", "4096\n"),
        ("memory.events", "oom 3\noom_kill 2\n"),
        ("cgroup.procs", ""),
    ] {
        fs::write(directory.join(name), text).unwrap();
    }
    SessionCgroup::open(Version::Two, vec![directory.to_owned(); 4], LIMITS).unwrap()
}

/// The build machines have no v2 controllers, so the v2 files are checked on a plain
/// directory that looks like a delegated scope: which files get which text.
#[test]
fn writes_the_v2_files() {
    let scope = tempfile::tempdir().unwrap();
    fs::write(
        scope.path().join("cgroup.controllers"),
        "cpuset cpu io memory pids",
    )
    .unwrap();
    let mounts = format!(
        "1 0 0:1 / {} rw - cgroup2 cgroup2 rw\n",
        scope.path().display()
    );
    let (version, parents) = Hierarchies::find(&mounts, "0::/\n").choose().unwrap();
    assert_eq!(version, Version::Two);
    let tree = make_v2_tree(&parents[0], "belljar-test").unwrap();
    let control = fs::read_to_string(tree.join("cgroup.subtree_control")).unwrap();
    assert_eq!(control, "+memory +pids +cpu");

    let directory = tree.join("s");
    fs::create_dir(&directory).unwrap();
    let session = session_at(&directory);
    let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
    assert_eq!(read("memory.max"), "1073741824");
    assert_eq!(read("memory.swap.max"), "0");
    assert_eq!(read("pids.max"), "64");
    assert_eq!(read("cpu.max"), "150000 100000");
    assert_eq!(session.cpu_time(), Duration::from_micros(42));
    assert_eq!(session.peak_bytes(), Some(4096));
    assert_eq!(session.memory_kills(), 2);
    assert!(session.is_half_full());
    fs::write(directory.join("memory.current"), "536870912\n").unwrap();
    assert!(!session.is_half_full());
    assert_eq!(session.joins().unwrap().len(), 1);
    let mut used = SessionUse {
        memory_bytes: Some(536_870_912),
        cpu_time: Some(Duration::from_micros(42)),
        processes: None,
    };
    assert_eq!(session.in_use(), used);
    fs::write(directory.join("pids.current"), "3\n").unwrap();
    fs::write(directory.join("cpu.stat"), "").unwrap();
    (used.processes, used.cpu_time) = (Some(3), None);
    assert_eq!(session.in_use(), used);
}

#[test]
fn busy_sessions_get_less_and_so_does_a_group_of_many() {
    let (of_group, of_session) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut session = session_at(of_session.path());
    assert!(session.busy().is_none(), "it has no group");
    session.group = Some(Arc::new(Group {
        version: Version::Two,
        directory: of_group.path().to_owned(),
        busy: Mutex::new(0),
    }));
    let weight = |of: &tempfile::TempDir| fs::read_to_string(of.path().join("cpu.weight")).ok();
    let mut busy = Vec::new();
    let mut seen = Vec::new();
    for _ in 0..40 {
        busy.push(session.busy());
        if seen.last() != Some(&weight(&of_group)) {
            seen.push(weight(&of_group));
        }
    }
    let seen: Vec<_> = seen.iter().map(Option::as_deref).collect();
    let expected = [None, Some("50"), Some("25"), Some("12"), Some("6")];
    assert_eq!(seen, expected);
    assert_eq!(weight(&of_session).as_deref(), Some("100"));
    drop(busy);
    assert_eq!(weight(&of_group).as_deref(), Some("100"));
    assert_eq!(weight(&of_session).as_deref(), Some("1600"));
}

#[test]
fn says_which_controller_is_missing() {
    let error = Hierarchies::find("", "").choose().unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
}

#[test]
fn a_namespace_group_has_the_limits_of_its_members_together() {
    let parent = tempfile::tempdir().unwrap();
    let namespace_group =
        NamespaceGroupCgroup::create(Version::Two, parent.path(), "7", 64, true).unwrap();
    let read = |name: &str| fs::read_to_string(namespace_group.directory().join(name)).unwrap();
    assert_eq!(read("cgroup.subtree_control"), "+memory +pids +cpu");
    assert_eq!(read("cpu.weight"), "1600");
    namespace_group.enter().unwrap();
    namespace_group.enter().unwrap();
    assert_eq!(read("pids.max"), "128");
    namespace_group.change_busy(|busy| busy + 2);
    assert_eq!(read("cpu.weight"), "200");
    namespace_group.change_busy(|busy| busy - 2);
    assert_eq!(read("cpu.weight"), "1600");
    assert_eq!(namespace_group.leave(), None);
    assert_eq!(read("pids.max"), "64");
    assert_eq!(
        namespace_group.leave(),
        Some(parent.path().join("namespaces-7"))
    );
}
