//! A process that keeps a user namespace for a moment.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::sys;

/// The name under which this binary is started again for it.
pub(crate) const NAME: &CStr = c"belljar-holder";

/// A process that keeps a user namespace until this is dropped, and does nothing else. A host with threads can't be forked
/// for that.
#[derive(Debug)]
pub(crate) struct NamespaceHolder(Child);

impl NamespaceHolder {
    pub(crate) fn start() -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(NAME.to_str().unwrap_or_default())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: between fork and exec the closure only calls unshare, which is async-signal-safe.
        unsafe { command.pre_exec(|| sys::unshare(libc::CLONE_NEWUSER)) };
        command.spawn().map(Self)
    }

    /// Maps one id of the namespace, by this file of `/proc`.
    pub(crate) fn map(&self, file: &str, inside: u32, outside: u32) -> io::Result<()> {
        let file = format!("/proc/{}/{file}", self.0.id());
        fs::write(file, format!("{inside} {outside} 1"))
    }

    pub(crate) fn namespace(&self) -> io::Result<fs::File> {
        fs::File::open(format!("/proc/{}/ns/user", self.0.id()))
    }
}

impl Drop for NamespaceHolder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The whole life of that process: until the host ends it, or is gone.
pub(crate) fn run() -> ! {
    let _ = rustix::io::read(io::stdin(), &mut [0; 1]);
    sys::exit_now(0);
}
