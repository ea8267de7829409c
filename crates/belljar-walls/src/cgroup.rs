//! Limits on what a session uses, by cgroup v2 where its controllers are there and else by the
//! v1 hierarchies, which a hybrid host still has.
//!
//! A few files and directories, written by hand: the crates that do this bring a D-Bus client and
//! a model of every controller for what is ten writes here.

mod claim;
mod hierarchies;
mod namespace_group;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::process::Process;
use hierarchies::Hierarchies;
pub use hierarchies::MemoryRoom;
use namespace_group::NamespaceGroupCgroup;

/// Limits of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CgroupLimits {
    /// Bytes of memory, files in memory included.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub processes: u64,
    /// Thousandths of a CPU.
    pub milli_cpus: u64,
}

/// Current use of a session; `None` for what the kernel does not report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionUse {
    /// Bytes of memory, files in memory included.
    pub memory_bytes: Option<u64>,
    /// CPU time since it was made.
    pub cpu_time: Option<Duration>,
    /// Processes and threads.
    pub processes: Option<u64>,
}

/// Why limits can't be set on this host.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The host does not have the controllers.
    #[error("no cgroup hierarchy with the {missing} controller was found")]
    Missing {
        /// The missing controllers.
        missing: String,
    },
    /// They exist, but not for this user.
    #[error("cgroup `{path}` cannot be used: {source}")]
    Refused {
        /// The directory or file.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
}

/// Indices into lists with an entry for each of [`hierarchies::CONTROLLERS`].
const MEMORY: usize = 0;
const PIDS: usize = 1;
const CPU: usize = 2;
const CPUACCT: usize = 3;

/// Lists the processes of a cgroup; a process id written to it moves that process here.
const PROCESSES: &str = "cgroup.procs";

/// The cgroups of one engine.
#[derive(Debug)]
pub struct Cgroups {
    version: Version,
    /// The engine's directory for each of [`hierarchies::CONTROLLERS`], the same one several times
    /// where they share a hierarchy, as all do in v2.
    trees: Vec<PathBuf>,
    /// Where this process joins the cgroup that it is in; see [`Self::expect_join`].
    own: Option<OwnedFd>,
    /// Those that sessions share, by their directories.
    groups: Mutex<HashMap<PathBuf, Arc<Group>>>,
}

/// Sessions that share a part of the CPUs.
#[derive(Debug)]
struct Group {
    version: Version,
    directory: PathBuf,
    /// How many of them are busy.
    busy: Mutex<usize>,
}

/// A session of a group that is busy until this is dropped.
#[derive(Debug)]
pub struct Busy<'a> {
    session: &'a SessionCgroup,
    group: &'a Group,
}

impl Group {
    /// A group that keeps many sessions busy gets less for each doubling, down to a sixteenth. The
    /// kernel divides each CPU by itself: with equal shares, a group that is on all of them would
    /// take half of the only one that another is on.
    fn change(&self, change: impl FnOnce(usize) -> usize) {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let halved = |busy: usize| busy.max(1).ilog2().min(4);
        let before = halved(*busy);
        *busy = change(*busy);
        let now = halved(*busy);
        if now != before {
            self.version
                .set_share(&self.directory, |usual| usual >> now);
        }
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.session.set_share(FAST);
        if let Some(namespace_group) = &self.session.namespace_group {
            namespace_group.change_busy(|busy| busy - 1);
        }
        self.group.change(|busy| busy - 1);
    }
}

/// The larger share of CPU, within its group, for work that others wait for: starting, copying and
/// ending sessions. The kernel locks files that all interpreters have mapped, and other things that
/// all tenants share, meanwhile. A holder of such a lock that waits for busy sessions of its own
/// group makes everybody wait.
const FAST: u64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// The file to which a process with one thread writes `0` to join.
    fn join_file(self) -> &'static str {
        match self {
            // Moving one's own thread needs no lock over all processes of the host. Moving a
            // process does, and waits for a grace period of RCU: 10 ms were measured, half of
            // a session's start.
            Self::One => "tasks",
            Self::Two => PROCESSES,
        }
    }

    /// Sets the CPU share of a cgroup relative to others. If that fails, it keeps its share.
    fn set_share(self, directory: &Path, share: impl FnOnce(u64) -> u64) {
        let (file, usual) = match self {
            Self::One => ("cpu.shares", 1024),
            Self::Two => ("cpu.weight", 100),
        };
        let _ = fs::write(directory.join(file), share(usual).to_string());
    }
}

impl Cgroups {
    /// All directories that [`Self::create`] may make under this name.
    pub fn plan(name: &str) -> Result<Vec<PathBuf>, CgroupError> {
        let (_, parents) = Hierarchies::claimed().choose()?;
        let trees: Vec<PathBuf> = parents.iter().flatten().map(|p| p.join(name)).collect();
        Ok(unique(&trees))
    }

    /// Makes an engine's cgroups below the caller's own.
    pub fn create(name: &str) -> Result<Self, CgroupError> {
        let (version, trees) = Hierarchies::claimed().make(name)?;
        Ok(Self {
            version,
            trees,
            own: Hierarchies::of_this_process().own_join(version),
            groups: Mutex::default(),
        })
    }

    /// Whether this is cgroup v2.
    pub fn is_v2(&self) -> bool {
        self.version == Version::Two
    }

    /// The engine's directories, each once.
    pub fn trees(&self) -> Vec<PathBuf> {
        unique(&self.trees)
    }

    /// Makes the cgroups of a session. Sessions of one group share the CPUs: together as much as
    /// another group, however many they are.
    pub fn session(
        &self,
        name: &str,
        group: Option<&str>,
        limits: CgroupLimits,
    ) -> Result<SessionCgroup, CgroupError> {
        let cpu_directory = self.cpu_directory();
        let mut parents = self.trees.clone();
        let group = group.map(|group| self.group(cpu_directory.join(group)));
        let group = group.transpose()?;
        if let Some(group) = &group {
            for parent in &mut parents {
                if parent == cpu_directory {
                    group.directory.clone_into(parent);
                }
            }
        }
        let namespace_group = NamespaceGroupCgroup::create(
            self.version,
            &parents[PIDS],
            name,
            limits.processes,
            group.is_some() && parents[CPU] == parents[PIDS],
        )?;
        let above = parents[PIDS].clone();
        for parent in &mut parents {
            if *parent == above {
                namespace_group.directory().clone_into(parent);
            }
        }
        self.below(&parents, name, limits, group, Arc::new(namespace_group))
    }

    /// Work for another thread that shortens the wait of a process that joins a session's cgroup soon.
    ///
    /// In version 2, who joins takes a lock over all processes of the host, and the first to take it waits for a grace
    /// period of RCU: 7 ms were measured, against 0.1 ms for the next, for 20 ms. So this process takes it, by joining
    /// the cgroup that it is in, while the session's own process is still being made.
    pub fn expect_join(&self) -> Option<impl FnOnce() + Send + 'static> {
        let own = self.own.as_ref()?.try_clone().ok()?;
        Some(move || {
            // If that fails, the session's process waits itself.
            let _ = rustix::io::write(&own, b"0");
        })
    }

    /// A descriptor to which the template of a group writes `0` to join it: starting sessions is
    /// charged to the group's share.
    pub fn template(&self, group: &str) -> Result<OwnedFd, CgroupError> {
        let group = self.group(self.cpu_directory().join(group))?;
        let directory = group.directory.join("template");
        match fs::create_dir(&directory) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                return Err(refused(&directory, source));
            }
            _ => {}
        }
        self.version.set_share(&directory, |usual| FAST * usual);
        let path = directory.join(self.version.join_file());
        let file = File::options().write(true).open(&path);
        Ok(file.map_err(|source| refused(&path, source))?.into())
    }

    /// The directory of the CPU controller.
    fn cpu_directory(&self) -> &Path {
        &self.trees[CPU]
    }

    /// The group that has this directory.
    fn group(&self, directory: PathBuf) -> Result<Arc<Group>, CgroupError> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = groups.get(&directory) {
            return Ok(Arc::clone(group));
        }
        fs::create_dir(&directory).map_err(|source| refused(&directory, source))?;
        if self.version == Version::Two {
            hierarchies::delegate(&directory)?;
        }
        let group = Arc::new(Group {
            version: self.version,
            directory: directory.clone(),
            busy: Mutex::new(0),
        });
        groups.insert(directory, Arc::clone(&group));
        Ok(group)
    }

    /// Makes the cgroups of a fork: in the CPU group and the namespace group of its parent session.
    pub fn beside(
        &self,
        other: &SessionCgroup,
        name: &str,
        limits: CgroupLimits,
    ) -> Result<SessionCgroup, CgroupError> {
        let parents = other.directories.iter().filter_map(|one| one.parent());
        let parents: Vec<PathBuf> = parents.map(Path::to_owned).collect();
        let namespace_group = other.namespace_group.clone().ok_or(CgroupError::Missing {
            missing: "pids".into(),
        })?;
        self.below(&parents, name, limits, other.group.clone(), namespace_group)
    }

    fn below(
        &self,
        parents: &[PathBuf],
        name: &str,
        limits: CgroupLimits,
        group: Option<Arc<Group>>,
        namespace_group: Arc<NamespaceGroupCgroup>,
    ) -> Result<SessionCgroup, CgroupError> {
        namespace_group.enter()?;
        let directories: Vec<PathBuf> = parents.iter().map(|parent| parent.join(name)).collect();
        let undo = || {
            for parent in unique(parents) {
                let _ = fs::remove_dir(parent.join(name));
            }
            if let Some(empty) = namespace_group.leave() {
                let _ = fs::remove_dir(empty);
            }
        };
        for directory in unique(&directories) {
            if let Err(source) = fs::create_dir(&directory) {
                undo();
                return Err(refused(&directory, source));
            }
        }
        let mut session = SessionCgroup::open(self.version, directories, limits);
        if let Ok(session) = &mut session {
            if group.is_some() {
                session.set_share(FAST);
            }
            session.group = group;
            session.namespace_group = Some(namespace_group);
        } else {
            undo();
        }
        session
    }
}

/// The cgroups of one session.
#[derive(Debug)]
pub struct SessionCgroup {
    version: Version,
    directories: Vec<PathBuf>,
    memory_bytes: u64,
    processes: u64,
    used: File,
    peak: Option<File>,
    cpu: File,
    memory_events: File,
    group: Option<Arc<Group>>,
    namespace_group: Option<Arc<NamespaceGroupCgroup>>,
}

impl SessionCgroup {
    fn open(
        version: Version,
        directories: Vec<PathBuf>,
        limits: CgroupLimits,
    ) -> Result<Self, CgroupError> {
        let CgroupLimits {
            memory_bytes,
            processes,
            milli_cpus,
        } = limits;
        let quota = milli_cpus * 100;
        let set = |index: usize, file: &str, value: String| {
            let path = directories[index].join(file);
            fs::write(&path, value).map_err(|source| refused(&path, source))
        };
        let (used, peak, cpu, events) = match version {
            Version::One => {
                set(MEMORY, "memory.limit_in_bytes", memory_bytes.to_string())?;
                // Only where the kernel accounts swap.
                let _ = set(
                    MEMORY,
                    "memory.memsw.limit_in_bytes",
                    memory_bytes.to_string(),
                );
                // Buffers of TCP and UDP are not in the above here, as they are in version 2.
                let buffers = memory_bytes / 8;
                set(
                    MEMORY,
                    "memory.kmem.tcp.limit_in_bytes",
                    buffers.to_string(),
                )?;
                set(PIDS, "pids.max", processes.to_string())?;
                set(CPU, "cpu.cfs_period_us", "100000".into())?;
                let limited = set(CPU, "cpu.cfs_quota_us", quota.to_string());
                // More than a cgroup above has is refused, unlike in version 2; the limit of that one
                // holds then.
                match limited {
                    Err(CgroupError::Refused { source, .. })
                        if source.kind() == io::ErrorKind::InvalidInput
                            && has_quota_above(&directories[CPU]) => {}
                    limited => limited?,
                }
                (
                    directories[MEMORY].join("memory.usage_in_bytes"),
                    directories[MEMORY].join("memory.max_usage_in_bytes"),
                    directories[CPUACCT].join("cpuacct.usage"),
                    directories[MEMORY].join("memory.oom_control"),
                )
            }
            Version::Two => {
                set(MEMORY, "memory.max", memory_bytes.to_string())?;
                let _ = set(MEMORY, "memory.swap.max", "0".into());
                set(PIDS, "pids.max", processes.to_string())?;
                set(CPU, "cpu.max", format!("{quota} 100000"))?;
                (
                    directories[MEMORY].join("memory.current"),
                    directories[MEMORY].join("memory.peak"),
                    directories[CPU].join("cpu.stat"),
                    directories[MEMORY].join("memory.events"),
                )
            }
        };
        // Kept open, since they are read for every cell.
        let open = |path: &Path| File::open(path).map_err(|source| refused(path, source));
        let (used, cpu, memory_events) = (open(&used)?, open(&cpu)?, open(&events)?);
        Ok(Self {
            version,
            directories,
            memory_bytes,
            processes,
            used,
            // memory.peak came with Linux 5.19 and can be reset since 6.12.
            peak: File::options()
                .read(true)
                .write(true)
                .open(&peak)
                .or_else(|_| File::open(&peak))
                .ok(),
            cpu,
            memory_events,
            group: None,
            namespace_group: None,
        })
    }

    /// Descriptors to which a process with one thread writes `0` to join.
    pub fn joins(&self) -> io::Result<Vec<OwnedFd>> {
        self.open_each(self.version.join_file())
    }

    /// Descriptors to which the id of a process is written to move it here.
    pub fn moves(&self) -> io::Result<Vec<OwnedFd>> {
        self.open_each(PROCESSES)
    }

    fn open_each(&self, file: &str) -> io::Result<Vec<OwnedFd>> {
        let open = |directory: &PathBuf| {
            let file = File::options().write(true).open(directory.join(file))?;
            Ok(file.into())
        };
        self.directories().iter().map(open).collect()
    }

    /// A descriptor to which the process that writes files into the workspace writes `0`, so that
    /// they are charged to the session. Its cgroup is below the session's: what ends the processes
    /// of the session does not end a file on its way.
    pub fn writer_join(&self) -> io::Result<OwnedFd> {
        let directory = self.directories[MEMORY].join("writer");
        match fs::create_dir(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let join = directory.join(self.version.join_file());
        Ok(File::options().write(true).open(join)?.into())
    }

    /// Whether so many bytes more can be charged without the kernel ending a process for it.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        let Some(used) = read_number(&self.used) else {
            return true;
        };
        let Some(over) = (used.saturating_add(bytes)).checked_sub(self.memory_bytes) else {
            return true;
        };
        // Pages of files on disk are let go where memory is short.
        let stat = fs::read_to_string(self.directories[MEMORY].join("memory.stat"));
        let stat = stat.unwrap_or_default();
        let names = match self.version {
            Version::One => ["total_inactive_file", "total_active_file"],
            Version::Two => ["inactive_file", "active_file"],
        };
        over <= names.iter().map(|name| field(&stat, name)).sum()
    }

    /// The most memory that it may use.
    pub fn memory_limit(&self) -> u64 {
        self.memory_bytes
    }

    /// The process of this cgroup that has this id in its innermost pid namespace.
    pub fn member(&self, inside: i32) -> Option<(i32, Process)> {
        let outside = self
            .members()
            .into_iter()
            .find(|pid| is_inside(*pid, inside))?;
        let process = Process::open(outside).ok()?;
        // The number may have become another's in between.
        (is_inside(outside, inside) && self.members().contains(&outside))
            .then_some((outside, process))
    }

    /// Kills all processes but these; returns whether none is left. Until [`Self::allow_forks`] no
    /// process can be added, so that code which forks without pause can't win.
    pub fn kill_all_but(&self, kept: &[i32]) -> bool {
        let _ = fs::write(self.directories[PIDS].join("pids.max"), "0");
        kill_members(&self.directories[MEMORY], kept)
    }

    /// Undoes what [`Self::kill_all_but`] did to the limit of processes.
    pub fn allow_forks(&self) {
        let limit = self.processes.to_string();
        let _ = fs::write(self.directories[PIDS].join("pids.max"), limit);
    }

    fn members(&self) -> Vec<i32> {
        members(&self.directories[MEMORY])
    }

    /// Whether more than half of the memory is in use.
    pub fn is_half_full(&self) -> bool {
        read_number(&self.used).is_some_and(|used| used > self.memory_bytes / 2)
    }

    /// Starts a new measurement of the peak, where the kernel can.
    pub fn reset_peak(&self) {
        if let Some(peak) = &self.peak {
            let _ = peak.write_at(b"0", 0);
        }
    }

    /// The most memory that was in use since the last reset.
    pub fn peak_bytes(&self) -> Option<u64> {
        read_number(self.peak.as_ref()?)
    }

    /// CPU time used so far.
    pub fn cpu_time(&self) -> Duration {
        self.read_cpu_time().unwrap_or_default()
    }

    fn read_cpu_time(&self) -> Option<Duration> {
        match self.version {
            Version::One => read_number(&self.cpu).map(Duration::from_nanos),
            Version::Two => {
                find_field(&read_all(&self.cpu), "usage_usec").map(Duration::from_micros)
            }
        }
    }

    /// Current use.
    pub fn in_use(&self) -> SessionUse {
        let processes = File::open(self.directories[PIDS].join("pids.current"));
        SessionUse {
            memory_bytes: read_number(&self.used),
            cpu_time: self.read_cpu_time(),
            processes: processes.ok().as_ref().and_then(read_number),
        }
    }

    /// How many processes the kernel killed here for want of memory.
    pub fn memory_kills(&self) -> u64 {
        field(&read_all(&self.memory_events), "oom_kill")
    }

    /// Marks it as busy, which its group's share depends on.
    pub fn busy(&self) -> Option<Busy<'_>> {
        let group = self.group.as_deref()?;
        group.change(|busy| busy + 1);
        if let Some(namespace_group) = &self.namespace_group {
            namespace_group.change_busy(|busy| busy + 1);
        }
        self.set_share(1);
        Some(Busy {
            session: self,
            group,
        })
    }

    /// Sets how many times the usual share it has of its group's.
    fn set_share(&self, times: u64) {
        let share = |usual| times * usual;
        self.version.set_share(&self.directories[CPU], share);
    }

    /// Leaves its namespace group, once it has ended. Returns the directories for [`remove_tree`].
    pub fn leave(&self) -> Vec<PathBuf> {
        let mut directories = self.directories();
        directories.extend(
            self.namespace_group
                .as_ref()
                .and_then(|namespace_group| namespace_group.leave()),
        );
        directories
    }

    /// Its directories, each once.
    pub fn directories(&self) -> Vec<PathBuf> {
        unique(&self.directories)
    }
}

/// Ids on the host of the processes of a cgroup.
fn members(directory: &Path) -> Vec<i32> {
    let text = fs::read_to_string(directory.join(PROCESSES)).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Ends all processes of a cgroup but these; returns whether there was none.
fn kill_members(directory: &Path, kept: &[i32]) -> bool {
    let others: Vec<(i32, io::Result<Process>)> = members(directory)
        .into_iter()
        .filter(|pid| !kept.contains(pid))
        .map(|pid| (pid, Process::open(pid)))
        .collect();
    // A number may have become another's before it was opened.
    let members = members(directory);
    for (pid, process) in &others {
        if let Ok(process) = process
            && members.contains(pid)
        {
            let _ = process.kill();
        }
    }
    others.is_empty()
}

/// Removes a cgroup and those below it, retrying for two seconds while processes are dying. Whoever
/// is still in it is ended.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(2);
    if let Ok(entries) = fs::read_dir(path) {
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove_tree(&entry.path())?;
            }
        }
    }
    loop {
        match fs::remove_dir(path) {
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline =>
            {
                kill_members(path, &[]);
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => return other,
        }
    }
}

/// Whether a process has this id in its innermost pid namespace.
fn is_inside(pid: i32, inside: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let innermost = ids.and_then(|ids| ids.split_whitespace().last());
    innermost.and_then(|id| id.parse().ok()) == Some(inside)
}

/// Whether a cgroup above has a limit on CPUs, in version 1.
fn has_quota_above(directory: &Path) -> bool {
    directory.ancestors().skip(1).any(|above| {
        let quota = fs::read_to_string(above.join("cpu.cfs_quota_us")).ok();
        quota.is_some_and(|quota| quota.trim().parse().is_ok_and(|quota: i64| quota > 0))
    })
}

fn refused(path: &Path, source: io::Error) -> CgroupError {
    CgroupError::Refused {
        path: path.to_owned(),
        source,
    }
}

fn unique(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !out.contains(path) {
            out.push(path.clone());
        }
    }
    out
}

fn read_all(file: &File) -> String {
    let mut buffer = [0; 1024];
    let read = file.read_at(&mut buffer, 0).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..read]).into_owned()
}

fn read_number(file: &File) -> Option<u64> {
    read_all(file).trim().parse().ok()
}

fn field(text: &str, name: &str) -> u64 {
    find_field(text, name).unwrap_or(0)
}

fn find_field(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(key, _)| *key == name)
        .and_then(|(_, value)| value.trim().parse().ok())
}

#[cfg(test)]
mod tests;
