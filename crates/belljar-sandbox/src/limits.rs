//! Limits of a session.

use std::sync::LazyLock;
use std::thread::available_parallelism;
use std::time::Duration;

/// The template has buffers for so many (`MOST` in the guest's `blas.py`).
const MAX_THREADS: u64 = 16;

/// Limits of a session and of each of its cells. The defaults suit one analyst on a laptop; they are
/// written here alone, and docs/configuration.md lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of everything in the session, its files included (they live in memory).
    pub memory_bytes: u64,
    /// Thousandths of a CPU.
    pub milli_cpus: u64,
    /// Processes and threads.
    pub processes: u64,
    /// Open files of each process.
    pub open_files: u64,
    /// Size of one file.
    pub file_bytes: u64,
    /// Size of the workspace.
    pub workspace_bytes: u64,
    /// Size of `/tmp`, and of `/dev/shm`, each.
    pub temporary_bytes: u64,
    /// Files and directories in each of these three.
    pub inodes: u64,
    /// Wall time of a cell.
    pub wall_time: Duration,
    /// CPU time of a cell. By default it is not limited, since `milli_cpus` and `wall_time` bound it.
    pub cpu_time: Option<Duration>,
    /// Grace period after the interrupt at its time limit, before everything in the session is
    /// killed.
    pub grace: Duration,
    /// Tool calls of a cell.
    pub calls: u32,
    /// Output of a cell, before it is stopped.
    pub output_bytes: u64,
    /// Bytes of a stream in an outcome; more is cut in the middle.
    pub output_kept_bytes: usize,
    /// Bytes of a stream that are kept in a file.
    pub output_file_bytes: u64,
    /// Largest file that can be transferred to or from the workspace.
    pub transfer_bytes: u64,
}

impl Limits {
    /// The part of its memory that a session's interpreter does not request, and that transferred
    /// files don't use: it keeps the kernel from killing a process.
    pub(crate) fn reserve_bytes(&self) -> u64 {
        (self.memory_bytes / 16).min(64 << 20)
    }

    /// Threads of libraries that compute: one for each CPU. `OpenBLAS` takes 41 MB of address space for each.
    pub(crate) fn threads(&self) -> u64 {
        static OF_HOST: LazyLock<u64> =
            LazyLock::new(|| available_parallelism().map_or(1, |count| count.get() as u64));
        // A process that cannot start them ends or hangs.
        let bearable = (self.memory_bytes >> 28).min(self.processes / 8);
        let most = (*OF_HOST).min(MAX_THREADS).min(bearable);
        self.milli_cpus.div_ceil(1000).min(most).max(1)
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
