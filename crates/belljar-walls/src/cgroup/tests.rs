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
    fs::write(directory.join("cpu.stat"), "usage_usec 42\nuser_usec 1\n").unwrap();
    fs::write(directory.join("memory.current"), "536870913\n").unwrap();
    fs::write(directory.join("memory.peak"), "4096\n").unwrap();
    fs::write(directory.join("memory.events"), "oom 3\noom_kill 2\n").unwrap();
    fs::write(directory.join("cgroup.procs"), "").unwrap();
    let session = SessionCgroup::open(Version::Two, vec![directory.clone()], LIMITS).unwrap();
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
fn a_group_with_many_busy_sessions_gets_less() {
    let directory = tempfile::tempdir().unwrap();
    let group = Group {
        version: Version::Two,
        directory: directory.path().to_owned(),
        busy: Mutex::new(0),
    };
    let weight = || fs::read_to_string(directory.path().join("cpu.weight")).ok();
    let mut busy = Vec::new();
    let mut seen = Vec::new();
    for _ in 0..40 {
        group.change(|busy| busy + 1);
        busy.push(Busy(&group));
        if seen.last() != Some(&weight()) {
            seen.push(weight());
        }
    }
    let seen: Vec<_> = seen.iter().map(Option::as_deref).collect();
    let expected = [None, Some("50"), Some("25"), Some("12"), Some("6")];
    assert_eq!(seen, expected);
    drop(busy);
    assert_eq!(weight().as_deref(), Some("100"));
}

#[test]
fn says_which_controller_is_missing() {
    let error = Hierarchies::find("", "").choose().unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
}
