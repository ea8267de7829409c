//! Files for a workspace, written by a process that has joined the session's memory cgroup.
//!
//! The kernel charges a file in memory to whoever first writes its pages. Files that the host wrote
//! itself would be charged to the host, and no limit of the session would apply. So the host sends
//! the bytes to a child of the spawner, which has joined a cgroup below the session's, is the owner
//! of the workspace, and has no capabilities. Code in the session can't see it, since it is outside
//! of the session's pid namespace. If memory runs out, the kernel kills this process first.

use std::fs::{File, Permissions};
use std::io::{self, BufReader, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::beneath::{
    Beneath, BeneathError, NewFile, check_path, from_errno, io_error, temporary_beside,
};
use crate::cgroup::SessionCgroup;
use crate::error::{SetupError, StepContext};
use crate::sys;

/// What a frame is: one of these, the length of what follows, and that.
const DIRECTORY: u8 = 1;
/// The name that it has meanwhile, a NUL character, its path.
const FILE: u8 = 2;
const EXECUTABLE: u8 = 3;
const DATA: u8 = 4;
const KEEP: u8 = 5;
/// Where to copy from in the source, and how many bytes.
const COPY: u8 = 6;
/// Asks whether all that came before was done.
const SYNC: u8 = 7;
/// The same, of what is not to be finished.
const ABANDON: u8 = 8;
/// A path, a NUL character, the path that replaces it.
const RENAME: u8 = 9;

const HEADER: usize = 5;

/// The most bytes in a frame.
const MAX_FRAME: usize = 64 << 10;

/// How much is collected before it is sent.
const BUFFER: usize = 128 << 10;

/// How much of the space for that is kept.
const KEPT_BUFFER: usize = 4 << 10;

/// The most bytes that are copied by one call.
const MAX_COPY: usize = 16 << 20;

/// How much is written before the session's memory is looked at again.
const LOOK_AGAIN: u64 = 4 << 20;

/// How long a writer may take to answer. It has up to a gigabyte to write, with what is left of the
/// session's share of the CPUs.
const PATIENCE: Duration = Duration::from_mins(2);

/// How long a writer waits for more, and how long the host counts on that.
const IDLE: Duration = Duration::from_secs(30);
const COUNTED_ON: Duration = Duration::from_secs(10);

/// The host's end of a process that writes files into one workspace.
#[derive(Debug)]
pub struct FileWriter {
    socket: UnixStream,
    buffer: Vec<u8>,
    used: Instant,
}

impl FileWriter {
    /// Takes the host's end of its socket, and waits until it is ready.
    pub fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let mut writer = Self {
            socket,
            buffer: Vec::new(),
            used: Instant::now(),
        };
        match writer.read_answer()? {
            None => Ok(writer),
            Some((_, step)) => Err(io::Error::other(step)),
        }
    }

    /// A writer that is a thread of this process, with what it writes charged to this process: for fuzzing.
    #[doc(hidden)]
    pub fn in_thread(workspace: OwnedFd, source: Option<OwnedFd>) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        std::thread::spawn(move || {
            answer(&theirs, None)?;
            serve(theirs, &Beneath::new(workspace), source)
        });
        Self::new(ours)
    }

    /// Whether it is there, and will be for a while.
    pub fn is_ready(&self) -> bool {
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let received = recv(&self.socket, &mut byte, flags);
        self.used.elapsed() < COUNTED_ON && matches!(received, Err(Errno::AGAIN))
    }

    /// Begins to write. If the session has less than `reserve` bytes of memory left, files are
    /// refused.
    pub fn begin<'a>(&'a mut self, cgroup: Option<&'a SessionCgroup>, reserve: u64) -> Writing<'a> {
        Writing {
            writer: self,
            cgroup,
            reserve,
            looked_for: 0,
            path: String::new(),
            temporary: None,
        }
    }

    /// Asks for an answer to all that was sent.
    fn ask(&mut self, kind: u8) -> io::Result<Option<(Errno, String)>> {
        self.used = Instant::now();
        self.frame(kind, &[])?;
        self.flush()?;
        // It is kept for the next time, in which there may be none.
        self.buffer.shrink_to(KEPT_BUFFER);
        self.read_answer()
    }

    fn frame(&mut self, kind: u8, parts: &[&[u8]]) -> io::Result<()> {
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        if self.buffer.len() + HEADER + length > BUFFER {
            self.flush()?;
        }
        self.buffer.push(kind);
        let length = u32::try_from(length).map_err(io::Error::other)?;
        self.buffer.extend_from_slice(&length.to_le_bytes());
        for part in parts {
            self.buffer.extend_from_slice(part);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut left = self.buffer.as_slice();
        while !left.is_empty() {
            match send(&self.socket, left, SendFlags::NOSIGNAL) {
                Ok(sent) => left = &left[sent..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.buffer.clear();
        Ok(())
    }

    /// What was refused, and why.
    fn read_answer(&mut self) -> io::Result<Option<(Errno, String)>> {
        let mut answer = [0; 8];
        self.socket.read_exact(&mut answer)?;
        let [code, length] = [0, 4].map(|at| {
            i32::from_le_bytes([answer[at], answer[at + 1], answer[at + 2], answer[at + 3]])
        });
        if code == 0 {
            return Ok(None);
        }
        let length = usize::try_from(length).unwrap_or(MAX_FRAME);
        let mut about = vec![0; length.min(MAX_FRAME)];
        self.socket.read_exact(&mut about)?;
        let about = String::from_utf8_lossy(&about).into_owned();
        Ok(Some((Errno::from_raw_os_error(code), about)))
    }
}

/// Files on their way into a workspace. Until [`Self::finish`] none of them need be there.
#[derive(Debug)]
pub struct Writing<'a> {
    writer: &'a mut FileWriter,
    cgroup: Option<&'a SessionCgroup>,
    reserve: u64,
    /// For how many bytes there was memory when it was looked at.
    looked_for: u64,
    /// The last one that was begun, and where it is until it is kept.
    path: String,
    temporary: Option<String>,
}

impl Writing<'_> {
    /// Makes a directory and those that lead to it, where they are not there yet.
    pub fn directory(&mut self, path: &str) -> Result<(), BeneathError> {
        check_path(path)?;
        path.clone_into(&mut self.path);
        let sent = self.writer.frame(DIRECTORY, &[path.as_bytes()]);
        sent.map_err(|error| self.failed(error))
    }

    /// Gives a file or a directory another name, replacing a file of that name, and makes the directories it needs.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), BeneathError> {
        check_path(from)?;
        check_path(to)?;
        from.clone_into(&mut self.path);
        let frame = [from.as_bytes(), b"\0", to.as_bytes()];
        let sent = self.writer.frame(RENAME, &frame);
        sent.map_err(|error| self.failed(error))
    }

    /// Writes a file through `write`, whole or not at all, making the directories it needs.
    pub fn file<E: From<BeneathError>>(
        &mut self,
        path: &str,
        executable: bool,
        write: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.begin(path, executable)?;
        write(self)?;
        Ok(self.keep()?)
    }

    /// Begins a file, making the directories it needs. It has another name until it is [kept](Self::keep).
    pub fn begin(&mut self, path: &str, executable: bool) -> Result<(), BeneathError> {
        check_path(path)?;
        path.clone_into(&mut self.path);
        let temporary = temporary_beside(path);
        let name = temporary.rsplit('/').next().unwrap_or(&temporary);
        let kind = if executable { EXECUTABLE } else { FILE };
        let frame = [name.as_bytes(), b"\0", path.as_bytes()];
        let sent = self.writer.frame(kind, &frame);
        self.temporary = Some(temporary);
        sent.map_err(|error| self.failed(error))
    }

    /// Gives the file that was begun its name.
    pub fn keep(&mut self) -> Result<(), BeneathError> {
        let sent = self.writer.frame(KEEP, &[]);
        sent.map_err(|error| self.failed(error))
    }

    /// Refuses what the session has no memory for, before any of it is written.
    pub fn check_room(&mut self, bytes: u64) -> Result<(), BeneathError> {
        if let Some(cgroup) = self.cgroup
            && !cgroup.has_room(bytes.saturating_add(self.reserve))
        {
            return Err(self.no_memory(cgroup));
        }
        self.looked_for = bytes;
        Ok(())
    }

    /// Adds to the file that is being written.
    pub fn data(&mut self, bytes: &[u8]) -> Result<(), BeneathError> {
        for part in bytes.chunks(MAX_FRAME) {
            let length = part.len() as u64;
            if length > self.looked_for {
                // As much as there is at least, else as much as is needed now.
                let some = self.check_room(LOOK_AGAIN);
                some.or_else(|_| self.check_room(length))?;
            }
            self.looked_for -= length;
            let sent = self.writer.frame(DATA, &[part]);
            sent.map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// Adds a part of the file that the writer was started with, which it has until it finishes once.
    pub fn copy(&mut self, from: u64, bytes: u64) -> Result<(), BeneathError> {
        if bytes > self.looked_for {
            self.check_room(bytes)?;
        }
        self.looked_for -= bytes;
        let part = [from.to_le_bytes(), bytes.to_le_bytes()];
        let sent = self.writer.frame(COPY, &[&part[0], &part[1]]);
        sent.map_err(|error| self.failed(error))
    }

    /// Waits until all of it is there.
    pub fn finish(&mut self) -> Result<(), BeneathError> {
        let answer = self.writer.ask(SYNC);
        match answer.map_err(|error| self.failed(error))? {
            None => Ok(()),
            Some((error, path)) => Err(from_errno(&path, error)),
        }
    }

    /// Removes an unfinished file.
    ///
    /// # Errors
    /// The file that may be left, where the writer is gone.
    pub fn abandon(self) -> Result<(), Option<String>> {
        let answer = self.writer.ask(ABANDON);
        answer.map(drop).map_err(|_| self.temporary)
    }

    /// A writer that is gone was killed by the kernel, for want of memory.
    fn failed(&self, error: io::Error) -> BeneathError {
        let gone = [
            io::ErrorKind::BrokenPipe,
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::UnexpectedEof,
        ];
        match self.cgroup {
            Some(cgroup) if gone.contains(&error.kind()) => self.no_memory(cgroup),
            _ => io_error(&self.path, error),
        }
    }

    fn no_memory(&self, cgroup: &SessionCgroup) -> BeneathError {
        BeneathError::NoMemory {
            path: self.path.clone(),
            limit: cgroup.memory_limit(),
        }
    }
}

/// The whole life of a writer: until the host closes its end, or sends nothing for long.
pub(crate) fn run(descriptors: Vec<OwnedFd>, has_source: bool) -> ! {
    let Ok(mut descriptors) = take_descriptors(descriptors).map(Vec::into_iter) else {
        sys::exit_now(1);
    };
    let (Some(socket), Some(workspace)) = (descriptors.next(), descriptors.next()) else {
        sys::exit_now(1);
    };
    let (socket, workspace) = (UnixStream::from(socket), Beneath::new(workspace));
    let source = if has_source { descriptors.next() } else { None };
    let done = match prepare(&workspace, descriptors.next()) {
        Ok(()) => answer(&socket, None).and_then(|()| serve(socket, &workspace, source)),
        Err(error) => answer(&socket, Some((Errno::PERM, &error.to_string()))),
    };
    sys::exit_now(i32::from(done.is_err()));
}

/// Closes all others, which were the spawner's.
fn take_descriptors(descriptors: Vec<OwnedFd>) -> io::Result<Vec<OwnedFd>> {
    // Out of the way of the first numbers, since a target may be one of the sources.
    let above = descriptors
        .iter()
        .map(|source| sys::duplicate_above(source.as_raw_fd(), 10));
    let above = above.collect::<io::Result<Vec<_>>>()?;
    drop(descriptors);
    let mut count = 0;
    for source in above {
        sys::duplicate_to(source, count)?;
        count += 1;
    }
    sys::close_from(count.unsigned_abs())?;
    // SAFETY: the copies above are there, and nothing else in this process owns them.
    let owned = (0..count).map(|number| unsafe { OwnedFd::from_raw_fd(number) });
    Ok(owned.collect())
}

fn prepare(workspace: &Beneath, join: Option<OwnedFd>) -> Result<(), SetupError> {
    let _ = sys::set_name(c"belljar-writer");
    if let Some(join) = join {
        rustix::io::write(&join, b"0").step("joining the session's memory")?;
        // The kernel is to end this process before those of the session. The file is the process's
        // own only while it can be looked into.
        sys::set_dumpable(true).step("opening the writer")?;
        std::fs::write("/proc/self/oom_score_adj", "1000").step("setting the OOM score")?;
    }
    let owner = rustix::fs::fstat(workspace).step("looking for the workspace's owner")?;
    sys::set_ids(owner.st_uid, owner.st_gid).step("becoming the workspace's owner")?;
    sys::set_dumpable(false).step("hiding the writer")?;
    sys::drop_capabilities().step("dropping the writer's capabilities")?;
    sys::no_new_privileges().step("giving up new privileges")?;
    sys::die_with_parent().step("tying the writer to the spawner")
}

fn serve(socket: UnixStream, workspace: &Beneath, mut source: Option<OwnedFd>) -> io::Result<()> {
    socket.set_read_timeout(Some(IDLE))?;
    let mut input = BufReader::with_capacity(MAX_FRAME, socket);
    let mut frame = Vec::with_capacity(MAX_FRAME);
    let mut file = None;
    let mut refused = None;
    loop {
        let mut header = [0; HEADER];
        input.read_exact(&mut header)?;
        let [kind, length @ ..] = header;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_FRAME {
            return Err(io::ErrorKind::InvalidData.into());
        }
        frame.resize(length, 0);
        input.read_exact(&mut frame)?;
        if kind == ABANDON {
            file = None;
            refused = None;
        }
        if kind == SYNC || kind == ABANDON {
            // The writer is kept, and would keep that open.
            source = None;
            let refusal: Option<BeneathError> = refused.take();
            let refusal = refusal.as_ref().map(BeneathError::to_errno);
            answer(input.get_ref(), refusal)?;
        } else if refused.is_none()
            && let Err(error) = act(kind, &frame, workspace, source.as_ref(), &mut file)
        {
            // What comes until the host asks is of no use any more.
            file = None;
            refused = Some(error);
        }
    }
}

fn act(
    kind: u8,
    frame: &[u8],
    workspace: &Beneath,
    source: Option<&OwnedFd>,
    file: &mut Option<NewFile>,
) -> Result<(), BeneathError> {
    let text = || std::str::from_utf8(frame).unwrap_or_default();
    match (kind, file.as_mut()) {
        (DIRECTORY, _) => workspace.make_directory(text()),
        (RENAME, _) => {
            let (from, to) = text().split_once('\0').unwrap_or_default();
            workspace.rename(from, to)
        }
        (FILE | EXECUTABLE, _) => {
            let (temporary, path) = text().split_once('\0').unwrap_or_default();
            let new = file.insert(workspace.create(path, temporary)?);
            let mode = if kind == EXECUTABLE { 0o755 } else { 0o644 };
            let set = new.file.set_permissions(Permissions::from_mode(mode));
            set.map_err(|error| io_error(path, error))
        }
        (DATA, Some(new)) => {
            let written = new.file.write_all(frame);
            written.map_err(|error| io_error(new.path(), error))
        }
        (COPY, Some(new)) => {
            let copied = copy(frame, source, &new.file);
            copied.map_err(|error| io_error(new.path(), error))
        }
        (KEEP, _) => file.take().map_or(Ok(()), NewFile::keep),
        _ => Err(io_error("", io::ErrorKind::InvalidData.into())),
    }
}

/// Copies a part of the source, in the kernel.
fn copy(frame: &[u8], source: Option<&OwnedFd>, file: &File) -> io::Result<()> {
    let bad = || io::Error::from(io::ErrorKind::InvalidData);
    let (Some(source), Some((from, bytes))) = (source, frame.split_at_checked(8)) else {
        return Err(bad());
    };
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).map_err(|_| bad());
    let (mut from, mut left) = (number(from)?, number(bytes)?);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(MAX_COPY);
        match rustix::fs::sendfile(file, source, Some(&mut from), most) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(copied) => left -= copied as u64,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn answer(mut socket: &UnixStream, refusal: Option<(Errno, &str)>) -> io::Result<()> {
    let (error, about) = refusal.map_or((0, ""), |(error, about)| (error.raw_os_error(), about));
    let length = u32::try_from(about.len()).map_err(io::Error::other)?;
    let mut bytes = Vec::from(error.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(about.as_bytes());
    socket.write_all(&bytes)
}
