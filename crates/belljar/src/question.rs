//! A line that a program asks for, typed at the terminal.
//!
//! Keys are read one by one, so that what is typed after the line stays for the next prompt.

use std::io::{self, IsTerminal as _, PipeReader, PipeWriter, Write as _};

use anyhow::Context as _;
use belljar_sandbox::protocol::{CallId, Event, plain, visible};
use belljar_sandbox::{Error, Session};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::oneshot;

use crate::repl_terminal::HeldTerminal;

/// The longest line, in bytes.
const MAX_LINE: usize = 64 << 10;

/// Whether a person can be asked.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// The question of a running cell, while it has one.
#[derive(Default)]
pub(crate) struct Asking(Option<(CallId, TerminalQuestion)>);

impl Asking {
    /// Opens and closes questions, as the cell does.
    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::InputRequested {
                call,
                prompt,
                password,
            } => self.0 = Some((*call, TerminalQuestion::new(prompt, *password)?)),
            Event::InputClosed { .. } | Event::Outcome(_) if self.0.take().is_some() => {
                show("\n")?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The answer, once it is typed: a line, or none at Ctrl-D. Waits for ever without a question.
    pub(crate) async fn typed(&mut self) -> io::Result<(CallId, Option<String>)> {
        let Some((call, question)) = &mut self.0 else {
            return std::future::pending().await;
        };
        let call = *call;
        let typed = question.read().await;
        self.0 = None;
        typed.map(|typed| match typed {
            Typed::Line(line) => (call, Some(line)),
            Typed::End => (call, None),
        })
    }
}

/// Passes a typed answer to the cell, which may no longer wait for it.
pub(crate) async fn pass(
    session: &Session,
    typed: io::Result<(CallId, Option<String>)>,
) -> anyhow::Result<()> {
    let (call, line) = typed.context("reading the terminal")?;
    match session.answer_input(call, line).await {
        Ok(()) | Err(Error::NoCall { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// An open question. When it is dropped, its thread ends, and the terminal is as it was.
struct TerminalQuestion {
    typed: oneshot::Receiver<io::Result<Typed>>,
    _stop: PipeWriter,
    _held: HeldTerminal,
}

/// What a line is at its end.
enum Typed {
    Line(String),
    /// Ctrl-D.
    End,
}

impl TerminalQuestion {
    /// Shows the prompt.
    fn new(prompt: &str, password: bool) -> io::Result<Self> {
        let held = HeldTerminal::new()?;
        let (stopped, stop) = io::pipe()?;
        let (sender, typed) = oneshot::channel();
        let line = Line {
            // A program's words: no commands to the terminal among them.
            prompt: visible(&plain(prompt)).into_owned(),
            typed: Vec::new(),
            password,
        };
        show(&line.prompt)?;
        // A thread of its own: a runtime can't wait for one that is blocked in a read when the command is to end.
        std::thread::spawn(move || {
            if let Some(typed) = read(line, &stopped).transpose() {
                let _ = sender.send(typed);
            }
        });
        Ok(Self {
            typed,
            _stop: stop,
            _held: held,
        })
    }

    /// The line, once it is typed.
    async fn read(&mut self) -> io::Result<Typed> {
        let typed = (&mut self.typed).await;
        typed.unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into()))
    }
}

/// Reads keys to the end of the line; none if nobody waits for it any more.
fn read(mut line: Line, stopped: &PipeReader) -> io::Result<Option<Typed>> {
    let stdin = io::stdin();
    loop {
        let mut watched = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::new(stopped, PollFlags::IN),
        ];
        match poll(&mut watched, None) {
            Err(Errno::INTR) => continue,
            waited => waited?,
        };
        if !watched[1].revents().is_empty() {
            return Ok(None);
        }
        let mut byte = [0];
        if rustix::io::read(&stdin, &mut byte)? == 0 {
            return Ok(Some(Typed::End));
        }
        let (shown, end) = line.press(byte[0]);
        show(&shown)?;
        if end.is_some() {
            return Ok(end);
        }
    }
}

fn show(text: &str) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    stderr.write_all(text.as_bytes())?;
    stderr.flush()
}

struct Line {
    prompt: String,
    typed: Vec<u8>,
    password: bool,
}

impl Line {
    /// Takes a key: what to show for it, and the end of the line if it is that.
    fn press(&mut self, byte: u8) -> (String, Option<Typed>) {
        match byte {
            b'\r' | b'\n' => {
                let line = String::from_utf8_lossy(&std::mem::take(&mut self.typed)).into_owned();
                ("\n".to_owned(), Some(Typed::Line(line)))
            }
            4 if self.typed.is_empty() => ("\n".to_owned(), Some(Typed::End)),
            // Backspace, and Ctrl-U.
            8 | 127 => {
                let text = String::from_utf8_lossy(&self.typed).into_owned();
                let mut characters = text.chars();
                characters.next_back();
                self.typed = characters.as_str().as_bytes().to_vec();
                (self.again(), None)
            }
            21 => {
                self.typed.clear();
                (self.again(), None)
            }
            0..32 if byte != b'\t' => (String::new(), None),
            _ if self.typed.len() >= MAX_LINE => (String::new(), None),
            _ => {
                let before = self.shown().len();
                self.typed.push(byte);
                // A letter of several bytes is shown when it is whole.
                let shown = self.shown();
                (shown.get(before..).unwrap_or_default().to_owned(), None)
            }
        }
    }

    /// The whole letters of the line, as they are shown.
    fn shown(&self) -> String {
        if self.password {
            return String::new();
        }
        let whole = self.typed.utf8_chunks().next();
        visible(whole.map_or("", |chunk| chunk.valid())).into_owned()
    }

    /// The line once more, for what was taken back.
    fn again(&self) -> String {
        let prompt = self.prompt.rsplit('\n').next().unwrap_or_default();
        format!("\r\u{1b}[K{prompt}{}", self.shown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &mut Line, keys: &str) -> (String, Option<Typed>) {
        let mut shown = String::new();
        for byte in keys.bytes() {
            let (more, end) = line.press(byte);
            shown += &more;
            if end.is_some() {
                return (shown, end);
            }
        }
        (shown, None)
    }

    #[test]
    fn a_line_is_edited_and_a_password_is_not_shown() {
        let line = |password| Line {
            prompt: "first\nName: ".to_owned(),
            typed: Vec::new(),
            password,
        };
        let (shown, end) = typed(&mut line(false), "Zoë张\u{7f}\u{1b}!\rnext");
        assert_eq!(shown, "Zoë张\r\u{1b}[KName: Zoë!\n");
        assert!(matches!(end, Some(Typed::Line(line)) if line == "Zoë!"));
        let (shown, end) = typed(&mut line(true), "s3\u{15}cret\n");
        assert_eq!(shown, "\r\u{1b}[KName: \n");
        assert!(matches!(end, Some(Typed::Line(line)) if line == "cret"));
        assert!(matches!(
            typed(&mut line(false), "\u{4}").1,
            Some(Typed::End)
        ));
        assert!(typed(&mut line(false), "x\u{4}").1.is_none());
    }
}
