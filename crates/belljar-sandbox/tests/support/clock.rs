//! A process whose clock can be set, by `libfaketime`: what it says is the time is what a file says. It needs the
//! package `faketime`, and fails with that word without it.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const FILE: &str = "BELLJAR_TEST_CLOCK";

/// Which clocks are set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Set {
    /// The one that people read.
    Wall,
    /// The one that only runs, too: so it is for a machine that was paused.
    Both,
}

/// The clock of this process.
pub(crate) struct Clock(PathBuf);

impl Clock {
    /// One that is true at first, in this file.
    pub(crate) fn new(file: PathBuf) -> Self {
        let clock = Self(file);
        clock.set("+0");
        clock
    }

    /// Lets a command have it.
    pub(crate) fn give_to(&self, command: &mut Command, set: Set) {
        command
            .env("LD_PRELOAD", library())
            .env("FAKETIME_TIMESTAMP_FILE", &self.0)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DISABLE_SHM", "1")
            .env("NO_FAKE_STAT", "1");
        if set == Set::Wall {
            command.env("DONT_FAKE_MONOTONIC", "1");
        }
    }

    /// Moves it from the true time, by `+10y` or `-3600`.
    pub(crate) fn set(&self, offset: &str) {
        let new = self.0.with_extension("new");
        std::fs::write(&new, format!("{offset}\n")).unwrap();
        std::fs::rename(new, &self.0).unwrap();
    }
}

fn library() -> PathBuf {
    let directories = std::fs::read_dir("/usr/lib").unwrap().flatten();
    let directories = directories.map(|entry| entry.path());
    directories
        .chain([PathBuf::from("/usr/lib64"), PathBuf::from("/usr/lib")])
        .map(|directory| directory.join("faketime/libfaketimeMT.so.1"))
        .find(|library| library.exists())
        .expect("libfaketime is missing: install `faketime`")
}

/// Runs a test in a process whose clock can be set: this program once more, with that test alone.
pub(crate) fn with_clock(test: &str, set: Set, body: impl AsyncFnOnce(Clock)) {
    if let Some(file) = std::env::var_os(FILE) {
        return tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            // Tests that count threads wait for the end of the ones that block.
            .thread_keep_alive(Duration::from_millis(100))
            .build()
            .unwrap()
            .block_on(body(Clock(file.into())));
    }
    let directory = tempfile::tempdir().unwrap();
    let clock = Clock::new(directory.path().join("clock"));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture"])
        .env(FILE, &clock.0);
    clock.give_to(&mut command, set);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
