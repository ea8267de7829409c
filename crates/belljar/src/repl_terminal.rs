//! The terminal of the repl, which holds what is typed until a prompt reads it.
//!
//! A terminal as the shell leaves it shows what is typed in the middle of a cell's output. The editor loses
//! what it read beyond a cell that ends with a line feed, which is what such a terminal makes of Enter, and
//! it takes a late reply about the cursor for the one to its next question when much was typed ahead. So the
//! kernel keeps each key as it was pressed, without showing it, and what waits at a prompt is read here,
//! before the editor starts. Only Ctrl-C, Ctrl-Z and Ctrl-\ have an effect at once, and none of them drops
//! other keys.

use std::io::{self, Write as _};
use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Ctrl-D where a cell would begin, among what was typed ahead.
pub(crate) const END: char = '\u{4}';

/// The most that is read ahead; more waits in the kernel.
const MAX_AHEAD: usize = 1 << 20;

/// Holds the terminal from its making to its end.
#[derive(Debug)]
pub(crate) struct HeldTerminal {
    before: Termios,
}

impl HeldTerminal {
    /// Holds the terminal of standard input.
    pub(crate) fn new() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut held = before.clone();
        held.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN);
        held.local_modes
            .insert(LocalModes::ISIG | LocalModes::NOFLSH);
        held.input_modes
            .remove(InputModes::ICRNL | InputModes::IGNCR | InputModes::IXON);
        // Who types with line feeds, as programs do, means Enter.
        held.input_modes.insert(InputModes::INLCR);
        tcsetattr(io::stdin(), OptionalActions::Now, &held)?;
        Ok(Self { before })
    }
}

impl Drop for HeldTerminal {
    fn drop(&mut self) {
        let _ = io::stderr().flush();
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Makes the terminal ready for the editor, which leaves it again as it is held.
pub(crate) fn enter_raw_mode() -> io::Result<()> {
    crossterm::terminal::enable_raw_mode()?;
    let mut raw = tcgetattr(io::stdin())?;
    raw.input_modes.insert(InputModes::INLCR);
    Ok(tcsetattr(io::stdin(), OptionalActions::Now, &raw)?)
}

/// Whether keys wait to be read.
pub(crate) fn has_input() -> bool {
    crossterm::event::poll(Duration::ZERO).unwrap_or(false)
}

/// Adds what was typed ahead to a text.
pub(crate) fn read_ahead(text: &mut String) -> io::Result<()> {
    let mut is_more = true;
    while is_more && text.len() < MAX_AHEAD {
        // The editor's reader takes a part of what waits, and then waits for news. A change of the mode,
        // also to the same, is news.
        tcsetattr(io::stdin(), OptionalActions::Now, &tcgetattr(io::stdin())?)?;
        is_more = has_input();
        while text.len() < MAX_AHEAD && has_input() {
            add(text, &crossterm::event::read()?);
        }
    }
    Ok(())
}

/// Does to a text what the editor would do for the plain keys, and nothing for others.
fn add(text: &mut String, event: &Event) {
    let (code, modifiers) = match event {
        Event::Key(KeyEvent {
            code, modifiers, ..
        }) => (*code, *modifiers),
        Event::Paste(pasted) => {
            text.push_str(&pasted.replace("\r\n", "\n").replace('\r', "\n"));
            return;
        }
        _ => return,
    };
    let line = text.rfind('\n').map_or(0, |at| at + 1);
    match code {
        KeyCode::Enter => text.push('\n'),
        // Indentation; what it would complete elsewhere, nobody has seen.
        KeyCode::Tab if text[line..].trim().is_empty() => text.push('\t'),
        KeyCode::Backspace if text.len() > line => drop(text.pop()),
        KeyCode::Char('j') if modifiers == KeyModifiers::CONTROL => text.push('\n'),
        KeyCode::Char('c' | 'u') if modifiers == KeyModifiers::CONTROL => text.truncate(line),
        KeyCode::Char('d') if modifiers == KeyModifiers::CONTROL && text.len() == line => {
            text.push(END);
        }
        KeyCode::Char(c) if !modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => {
            text.push(c);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_typed_ahead_become_text() {
        let mut text = String::new();
        let mut press = |code, modifiers| {
            add(&mut text, &Event::Key(KeyEvent::new(code, modifiers)));
        };
        for c in "x = 12".chars() {
            press(KeyCode::Char(c), KeyModifiers::NONE);
        }
        press(KeyCode::Backspace, KeyModifiers::NONE);
        press(KeyCode::Left, KeyModifiers::NONE);
        press(KeyCode::Tab, KeyModifiers::NONE);
        press(KeyCode::Enter, KeyModifiers::NONE);
        press(KeyCode::Backspace, KeyModifiers::NONE);
        press(KeyCode::Char('Y'), KeyModifiers::SHIFT);
        press(KeyCode::Char('u'), KeyModifiers::CONTROL);
        press(KeyCode::Tab, KeyModifiers::NONE);
        press(KeyCode::Char('d'), KeyModifiers::CONTROL);
        press(KeyCode::Char('j'), KeyModifiers::CONTROL);
        press(KeyCode::Char('d'), KeyModifiers::CONTROL);
        add(&mut text, &Event::Paste("a\r\nb\r".into()));
        assert_eq!(text, "x = 1\n\t\n\u{4}a\nb\n");
    }
}
