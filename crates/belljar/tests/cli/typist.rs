//! Somebody who types at a terminal, and sees what is shown there.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use belljar_sandbox::protocol::plain;
use rustix::process::Pid;

use crate::support::{BELLJAR, Ended, Scratch};

/// A command on a terminal of its own, and who types there.
pub(crate) struct Typist {
    pub(crate) scratch: Scratch,
    child: Option<Child>,
    pub(crate) terminal: File,
    screen: Arc<(Mutex<Vec<u8>>, Condvar)>,
}

impl Typist {
    /// Starts `belljar` with these arguments.
    pub(crate) fn start(scratch: Scratch, arguments: &[&str]) -> Self {
        // Its own session, so that Ctrl-C reaches it and nobody else.
        let mut command = scratch.prepare("setsid");
        command
            .args(["--ctty", BELLJAR])
            .args(arguments)
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .env("XDG_STATE_HOME", scratch.0.path().join("state"));
        let (child, terminal) = Scratch::spawn_at_a_terminal(&mut command);
        let screen: Arc<(Mutex<Vec<u8>>, Condvar)> = Arc::default();
        let (mut reader, seen) = (terminal.try_clone().unwrap(), Arc::clone(&screen));
        let mut replies = terminal.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut part) {
                let mut got = seen.0.lock().unwrap();
                let before = got.len();
                got.extend_from_slice(&part[..read]);
                // Terminals tell where the cursor is.
                let asked = got[before.saturating_sub(3)..]
                    .windows(4)
                    .filter(|window| *window == b"\x1b[6n");
                for _ in asked {
                    replies.write_all(b"\x1b[1;1R").unwrap();
                }
                seen.1.notify_all();
            }
        });
        Self {
            scratch,
            child: Some(child),
            terminal,
            screen,
        }
    }

    pub(crate) fn types(&mut self, text: &str) -> &mut Self {
        self.terminal.write_all(text.as_bytes()).unwrap();
        self
    }

    /// Waits until this is on the screen, `times` times.
    #[track_caller]
    pub(crate) fn sees(&mut self, cue: &str, times: usize) -> &mut Self {
        let (screen, changed) = &*self.screen;
        let missing = |got: &mut Vec<u8>| shown(got).matches(cue).count() < times;
        let got = screen.lock().unwrap();
        let limit = Duration::from_mins(1);
        let (got, timeout) = changed.wait_timeout_while(got, limit, missing).unwrap();
        assert!(!timeout.timed_out(), "no {cue:?} in {}", shown(&got));
        drop(got);
        self
    }

    /// The process that was started.
    pub(crate) fn process(&self) -> Pid {
        Pid::from_child(self.child.as_ref().unwrap())
    }

    /// All that was sent to the terminal, as it is.
    pub(crate) fn raw(&self) -> String {
        String::from_utf8_lossy(&self.screen.0.lock().unwrap()).into_owned()
    }

    /// Waits for the end; how it ended, and all that was shown.
    pub(crate) fn ends(&mut self) -> (Ended, String) {
        let ended = self.scratch.finish(self.child.take().unwrap());
        let got = self.screen.0.lock().unwrap();
        (ended, shown(&got))
    }
}

fn shown(screen: &[u8]) -> String {
    plain(&String::from_utf8_lossy(screen)).replace('\r', "")
}
