//! Showing an image: in the terminal if it can, else as a file whose path is printed.
//!
//! The bytes come from a guest. What goes to the terminal is a PNG of a bounded size and nothing
//! else, wrapped in base64, so that no byte of it can be a command to the terminal.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_sandbox::protocol::{DisplayData, MimeType, Stream};
use rustix::fs::{Mode, OFlags};

use crate::show;

/// The largest image that is sent to a terminal.
const MAX_INLINE: usize = 8 << 20;
/// The most pixels of such an image: the terminal holds four bytes for each.
const MAX_PIXELS: u64 = 64 << 20;
/// What a kitty command may carry.
const CHUNK: usize = 4096;
/// The largest image that is saved.
const MAX_FILE: usize = 64 << 20;
/// What one run of the command saves.
const MAX_SAVED: u64 = 1 << 30;

static SAVED_FILES: AtomicU64 = AtomicU64::new(0);
static SAVED_BYTES: AtomicU64 = AtomicU64::new(0);

/// The image protocol of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Kitty,
    Iterm,
}

/// Shows an image of a display on a stream, if that is a terminal which can.
pub(crate) fn show(part: &DisplayData, stream: Stream) {
    if let Some(protocol) = protocol(&|name| std::env::var(name).ok())
        && show::is_terminal(stream)
        && part.mime == "image/png"
        && fits_terminal(&part.data)
    {
        let _ = show::write(stream, sequence(protocol, &part.data).as_bytes());
        return;
    }
    let texts = &crate::words::texts().session;
    match save(part) {
        Ok(path) => show::note(&texts.image(&path.display())),
        Err(error) => show::note(&texts.image_not_shown(&error)),
    }
}

/// What the terminal understands, by what it says of itself. A multiplexer would swallow it.
fn protocol(variable: &dyn Fn(&str) -> Option<String>) -> Option<Protocol> {
    let term = variable("TERM").unwrap_or_default();
    let multiplexed = ["TMUX", "STY", "ZELLIJ"]
        .iter()
        .any(|name| variable(name).is_some());
    if multiplexed
        || ["tmux", "screen", "dumb"]
            .iter()
            .any(|name| term.starts_with(name))
    {
        return None;
    }
    match variable("TERM_PROGRAM").as_deref() {
        // WezTerm knows both; this one needs no setting there.
        Some("iTerm.app" | "WezTerm") => return Some(Protocol::Iterm),
        Some("kitty" | "ghostty") => return Some(Protocol::Kitty),
        // Another terminal that was started from one of these inherits the rest.
        Some(_) => return None,
        None => {}
    }
    if matches!(term.as_str(), "xterm-kitty" | "xterm-ghostty")
        || variable("KITTY_WINDOW_ID").is_some()
    {
        return Some(Protocol::Kitty);
    }
    // This one goes along with ssh.
    (variable("LC_TERMINAL").as_deref() == Some("iTerm2")).then_some(Protocol::Iterm)
}

/// Whether it is a PNG of a size that a terminal can take.
fn fits_terminal(data: &[u8]) -> bool {
    png_size(data).is_some_and(|(width, height)| {
        let pixels = u64::from(width) * u64::from(height);
        data.len() <= MAX_INLINE && pixels > 0 && pixels <= MAX_PIXELS
    })
}

/// Width and height, from the first chunk of a PNG.
fn png_size(data: &[u8]) -> Option<(u32, u32)> {
    let chunk = data.strip_prefix(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")?;
    let (width, rest) = chunk.split_first_chunk()?;
    let (height, _) = rest.split_first_chunk()?;
    Some((u32::from_be_bytes(*width), u32::from_be_bytes(*height)))
}

/// What is written to the terminal.
fn sequence(protocol: Protocol, data: &[u8]) -> String {
    let encoded = BASE64.encode(data);
    let mut out = String::with_capacity(encoded.len() + encoded.len() / CHUNK * 16 + 128);
    match protocol {
        Protocol::Kitty => {
            let mut rest = encoded.as_str();
            // `q=2`: no answer, which would arrive as if it was typed.
            let mut keys = "a=T,f=100,q=2,";
            loop {
                let (chunk, left) = rest.split_at(rest.len().min(CHUNK));
                let more = u8::from(!left.is_empty());
                let _ = write!(out, "\x1b_G{keys}m={more};{chunk}\x1b\\");
                if left.is_empty() {
                    break;
                }
                (rest, keys) = (left, "q=2,");
            }
        }
        Protocol::Iterm => {
            let size = data.len();
            let _ = write!(
                out,
                "\x1b]1337;File=inline=1;size={size};preserveAspectRatio=1:{encoded}\x07"
            );
        }
    }
    out.push('\n');
    out
}

/// Writes the image to a file of its own.
fn save(part: &DisplayData) -> io::Result<PathBuf> {
    let size = part.data.len();
    if size > MAX_FILE {
        return Err(io::Error::other(format!(
            "its size of {size} bytes exceeds the limit of {MAX_FILE}"
        )));
    }
    if SAVED_BYTES.fetch_add(size as u64, Ordering::Relaxed) + size as u64 > MAX_SAVED {
        return Err(io::Error::other(format!(
            "the limit of {MAX_SAVED} bytes of saved images is reached"
        )));
    }
    let user = rustix::process::geteuid().as_raw();
    let directory = std::env::temp_dir().join(format!("belljar-images-{user}"));
    save_in(&directory, part)
}

/// Writes into a directory that is ours alone: another user may have made it first.
fn save_in(directory: &Path, part: &DisplayData) -> io::Result<PathBuf> {
    match rustix::fs::mkdir(directory, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(at(directory, error)),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags | OFlags::RDONLY, Mode::empty())
        .map_err(|error| at(directory, error))?;
    let status = rustix::fs::fstat(&opened)?;
    if status.st_uid != rustix::process::geteuid().as_raw() || status.st_mode & 0o077 != 0 {
        return Err(io::Error::other(format!(
            "`{}` is not a private directory of yours; remove it, or set TMPDIR to another directory",
            directory.display()
        )));
    }
    let run = std::process::id();
    let ending = ending(&part.mime);
    loop {
        let number = SAVED_FILES.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("{run}-{number}.{ending}");
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::openat(&opened, &name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => {
                let path = directory.join(&name);
                return match File::from(file).write_all(&part.data) {
                    Ok(()) => Ok(path),
                    Err(error) => {
                        let _ = rustix::fs::unlinkat(&opened, &name, rustix::fs::AtFlags::empty());
                        Err(error)
                    }
                };
            }
            // Of an earlier process with the same number.
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(at(directory, error)),
        }
    }
}

fn at(directory: &Path, error: rustix::io::Errno) -> io::Error {
    io::Error::other(format!("{}: {error}", directory.display()))
}

/// The ending of a file's name. Never the guest's own words.
fn ending(mime: &str) -> &'static str {
    let known = MimeType::named(mime).and_then(MimeType::extension);
    known.unwrap_or("image")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn png(width: u32, height: u32, length: usize) -> Vec<u8> {
        let mut data = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        data.extend(width.to_be_bytes());
        data.extend(height.to_be_bytes());
        data.resize(length, 7);
        data
    }

    fn known(variables: &[(&str, &str)]) -> Option<Protocol> {
        protocol(&|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn terminals_are_known_by_what_they_say() {
        assert_eq!(known(&[]), None);
        assert_eq!(known(&[("TERM", "xterm-256color")]), None);
        assert_eq!(known(&[("TERM", "xterm-kitty")]), Some(Protocol::Kitty));
        assert_eq!(known(&[("KITTY_WINDOW_ID", "1")]), Some(Protocol::Kitty));
        assert_eq!(known(&[("TERM_PROGRAM", "ghostty")]), Some(Protocol::Kitty));
        assert_eq!(known(&[("TERM_PROGRAM", "WezTerm")]), Some(Protocol::Iterm));
        assert_eq!(
            known(&[("TERM_PROGRAM", "iTerm.app")]),
            Some(Protocol::Iterm)
        );
        assert_eq!(known(&[("LC_TERMINAL", "iTerm2")]), Some(Protocol::Iterm));
        let inherited = [("TERM_PROGRAM", "vscode"), ("KITTY_WINDOW_ID", "1")];
        assert_eq!(known(&inherited), None);
        let multiplexed = [("TERM", "xterm-kitty"), ("TMUX", "/tmp/tmux-0/default,1,0")];
        assert_eq!(known(&multiplexed), None);
    }

    #[test]
    fn only_a_png_of_bounded_size_goes_to_the_terminal() {
        assert!(fits_terminal(&png(640, 480, 1000)));
        assert!(!fits_terminal(&png(100_000, 100_000, 1000)));
        assert!(!fits_terminal(&png(0, 480, 1000)));
        assert!(!fits_terminal(&png(640, 480, MAX_INLINE + 1)));
        assert!(!fits_terminal(b"\x1b]0;title\x07"));
        assert!(!fits_terminal(&png(1, 1, 24)[..20]));
    }

    #[test]
    fn kitty_gets_chunks_that_join_to_the_image() {
        let image = png(64, 64, 7000);
        let sent = sequence(Protocol::Kitty, &image);
        let mut joined = String::new();
        let commands: Vec<&str> = sent.trim_end().split_terminator("\x1b\\").collect();
        assert_eq!(commands.len(), 3);
        for (index, command) in commands.iter().enumerate() {
            let (keys, chunk) = command
                .strip_prefix("\x1b_G")
                .unwrap()
                .split_once(';')
                .unwrap();
            assert!(keys.contains("q=2"), "{keys}");
            assert_eq!(keys.contains("a=T,f=100"), index == 0);
            assert!(
                keys.ends_with(if index == 2 { "m=0" } else { "m=1" }),
                "{keys}"
            );
            assert!(chunk.len() <= CHUNK);
            joined.push_str(chunk);
        }
        assert_eq!(BASE64.decode(joined).unwrap(), image);
    }

    #[test]
    fn iterm_gets_one_sequence() {
        let image = png(64, 64, 100);
        let sent = sequence(Protocol::Iterm, &image);
        let body = sent
            .strip_prefix("\x1b]1337;File=inline=1;size=100;preserveAspectRatio=1:")
            .unwrap();
        let body = body.strip_suffix("\x07\n").unwrap();
        assert_eq!(BASE64.decode(body).unwrap(), image);
    }

    #[test]
    fn files_are_private_and_never_written_over() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("images");
        let part = DisplayData {
            mime: "image/svg+xml".into(),
            data: b"<svg/>".to_vec(),
        };
        let first = save_in(&directory, &part).unwrap();
        let second = save_in(&directory, &part).unwrap();
        assert_ne!(first, second);
        assert_eq!(first.extension().unwrap(), "svg");
        assert_eq!(std::fs::read(&first).unwrap(), b"<svg/>");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&first)), (0o700, 0o600));
    }

    #[test]
    fn a_directory_that_others_can_reach_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let part = DisplayData {
            mime: "image/png".into(),
            data: vec![0],
        };
        let open = scratch.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(
            save_in(&open, &part)
                .unwrap_err()
                .to_string()
                .contains("private directory")
        );
        let link = scratch.path().join("link");
        symlink(scratch.path(), &link).unwrap();
        assert!(save_in(&link, &part).is_err());
    }

    #[test]
    fn the_ending_is_never_the_guests() {
        assert_eq!(ending("image/png"), "png");
        assert_eq!(ending("image/../../x"), "image");
    }
}
