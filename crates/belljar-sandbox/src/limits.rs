//! Limits of a session.

use std::time::Duration;

/// Limits of a session and of each of its cells. The defaults suit one analyst on a laptop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of everything in the session, its files included (they live in memory): 2 GiB.
    pub memory_bytes: u64,
    /// Thousandths of a CPU: 2000.
    pub milli_cpus: u64,
    /// Processes and threads: 128.
    pub processes: u64,
    /// Open files of each process: 1024.
    pub open_files: u64,
    /// Size of one file: 1 GiB.
    pub file_bytes: u64,
    /// Size of the workspace: 1 GiB.
    pub workspace_bytes: u64,
    /// Size of `/tmp`, and of `/dev/shm`: 256 MiB each.
    pub temporary_bytes: u64,
    /// Files and directories in each of these three: 100,000.
    pub inodes: u64,
    /// Wall time of a cell: 30 s.
    pub wall_time: Duration,
    /// CPU time of a cell: not limited, since `milli_cpus` and `wall_time` bound it.
    pub cpu_time: Option<Duration>,
    /// Grace period after the interrupt at its time limit, before everything in the session is
    /// killed: 2 s.
    pub grace: Duration,
    /// Tool calls of a cell: 10,000.
    pub calls: u32,
    /// Output of a cell, before it is stopped: 1 GiB.
    pub output_bytes: u64,
    /// Bytes of a stream in an outcome; more is cut in the middle: 256 KiB.
    pub output_kept_bytes: usize,
    /// Bytes of a stream that are kept in a file: 64 MiB.
    pub output_file_bytes: u64,
    /// Largest file that can be transferred to or from the workspace: 256 MiB.
    pub transfer_bytes: u64,
}

impl Limits {
    /// The part of its memory that a session's interpreter does not request, and that transferred
    /// files don't use: it keeps the kernel from killing a process.
    pub(crate) fn reserve_bytes(&self) -> u64 {
        (self.memory_bytes / 16).min(64 << 20)
    }

    /// Bytes of a stream that are streamed while a cell runs; the rest is for the tail and the
    /// file.
    pub fn live_bytes(&self) -> usize {
        self.output_kept_bytes - self.output_kept_bytes / 4
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 2 << 30,
            milli_cpus: 2000,
            processes: 128,
            open_files: 1024,
            file_bytes: 1 << 30,
            workspace_bytes: 1 << 30,
            temporary_bytes: 256 << 20,
            inodes: 100_000,
            wall_time: Duration::from_secs(30),
            cpu_time: None,
            grace: Duration::from_secs(2),
            calls: 10_000,
            output_bytes: 1 << 30,
            output_kept_bytes: 256 << 10,
            output_file_bytes: 64 << 20,
            transfer_bytes: 256 << 20,
        }
    }
}
