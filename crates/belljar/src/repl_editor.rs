//! The line editor of the repl: reedline with our prompt, history and completion.

use std::borrow::Cow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use belljar_sandbox::protocol::visible;
use belljar_sandbox::{EntryKind, Session};
use etcetera::BaseStrategy;
use reedline::{
    Color, ColumnarMenu, Completer, CompletionResult, EditCommand, Emacs, FileBackedHistory,
    KeyCode, KeyModifiers, MenuBuilder, Prompt, PromptEditMode, PromptHistorySearch, Reedline,
    ReedlineEvent, ReedlineMenu, Signal, SimpleMatchHighlighter, Span, Suggestion,
    ValidationResult, Validator, default_emacs_keybindings,
};

use crate::repl_actions::COMMANDS;
use crate::{python_input, show};

const MENU: &str = "completion";
const HISTORY_ENTRIES: usize = 10_000;
/// Maximum number of suggestions shown.
const MAX_SUGGESTIONS: usize = 500;

/// The session that is typed into, or none for the moment between two.
#[derive(Clone, Debug, Default)]
pub(crate) struct Live(Arc<Mutex<Option<Arc<Session>>>>);

impl Live {
    pub(crate) fn get(&self) -> Option<Arc<Session>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn set(&self, session: Arc<Session>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
    }

    pub(crate) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// What came from the terminal.
pub(crate) enum Typed {
    Text(String),
    /// Ctrl-C: the line was cleared.
    Nothing,
    /// Ctrl-D.
    End,
}

pub(crate) struct Editor(Reedline);

impl Editor {
    pub(crate) fn new(live: &Live) -> Self {
        let mut keys = default_emacs_keybindings();
        let complete = ReedlineEvent::UntilFound(vec![
            ReedlineEvent::Menu(MENU.into()),
            ReedlineEvent::MenuNext,
        ]);
        keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, complete);
        keys.add_binding(
            KeyModifiers::SHIFT,
            KeyCode::BackTab,
            ReedlineEvent::MenuPrevious,
        );
        let newline = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
        keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, newline);
        let colour =
            anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
        let editor = Reedline::create()
            .with_edit_mode(Box::new(Emacs::new(keys)))
            .with_completer(Box::new(Names(live.clone())))
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(
                ColumnarMenu::default().with_name(MENU).with_marker(""),
            )))
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_validator(Box::new(Whole))
            // Shows what is typed as it is.
            .with_highlighter(Box::<SimpleMatchHighlighter>::default())
            .with_ansi_colors(colour)
            .use_bracketed_paste(true);
        Self(match history() {
            Ok(history) => editor.with_history(Box::new(history)),
            Err(error) => {
                show::note(&format!("[the history is not saved: {error}]"));
                editor
            }
        })
    }

    /// Reads what becomes cell `number`. Blocks; call it where a runtime may be blocked on.
    pub(crate) fn read(&mut self, number: u32) -> std::io::Result<Typed> {
        let signal = self.0.read_line(&CellPrompt(format!("In [{number}]: ")));
        match signal.map_err(std::io::Error::other)? {
            Signal::Success(text) => {
                let _ = self.0.sync_history();
                Ok(Typed::Text(text))
            }
            Signal::CtrlD => Ok(Typed::End),
            _ => Ok(Typed::Nothing),
        }
    }
}

/// The history, in the user's state directory, for their eyes only.
fn history() -> anyhow::Result<FileBackedHistory> {
    let path = history_path()?;
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::File::options()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&path)?;
    Ok(FileBackedHistory::with_file(HISTORY_ENTRIES, path)?)
}

fn history_path() -> anyhow::Result<PathBuf> {
    let strategy = etcetera::choose_base_strategy()?;
    let base = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
    Ok(base.join("belljar/history"))
}

struct CellPrompt(String);

impl Prompt for CellPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Owned(format!("{:>width$}", "...: ", width = self.0.len()))
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(search: {}) ", search.term))
    }

    fn get_prompt_color(&self) -> Color {
        Color::Green
    }

    fn get_prompt_multiline_color(&self) -> Color {
        Color::Green
    }
}

/// Enter runs what is a whole cell, and else makes a new line.
struct Whole;

impl Validator for Whole {
    fn validate(&self, line: &str) -> ValidationResult {
        if python_input::is_complete(line) {
            ValidationResult::Complete
        } else {
            ValidationResult::Incomplete
        }
    }
}

/// Completion from the live namespace.
struct Names(Live);

impl Completer for Names {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let suggestions = self.suggestions(line, position).unwrap_or_default();
        CompletionResult::fresh(suggestions)
    }
}

impl Names {
    fn suggestions(&self, line: &str, position: usize) -> Option<Vec<Suggestion>> {
        let before = line.get(..position)?;
        let current = before.rsplit('\n').next().unwrap_or_default();
        if current.trim().is_empty() && !before.is_empty() || before.trim().is_empty() {
            // At the beginning of a line Tab indents.
            let missing = 4 - current.chars().count() % 4;
            return Some(vec![suggestion(" ".repeat(missing), position, position)]);
        }
        let session = self.0.get()?;
        if before.starts_with('/') {
            return Some(command_suggestions(&session, before));
        }
        // The editor's thread is one that may be blocked.
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        let (start, candidates) = runtime.block_on(session.complete(before, position)).ok()?;
        if start > position || !before.is_char_boundary(start) {
            return None;
        }
        let shown = candidates
            .into_iter()
            .filter(|name| !name.is_empty() && visible(name) == *name);
        Some(
            shown
                .take(MAX_SUGGESTIONS)
                .map(|name| suggestion(name, start, position))
                .collect(),
        )
    }
}

/// Commands, and the names of files where one is wanted.
fn command_suggestions(session: &Session, before: &str) -> Vec<Suggestion> {
    let position = before.len();
    if let Some(typed) = before.strip_prefix("/get ") {
        let entries = session
            .list("")
            .map(|listing| listing.entries)
            .unwrap_or_default();
        let files = entries
            .into_iter()
            .filter(|entry| entry.kind == EntryKind::File);
        let names = files
            .map(|entry| entry.path)
            .filter(|path| path.starts_with(typed));
        let plain =
            names.filter(|path| visible(path) == *path && !path.contains(char::is_whitespace));
        return plain
            .take(MAX_SUGGESTIONS)
            .map(|path| suggestion(path, "/get ".len(), position))
            .collect();
    }
    let known = COMMANDS
        .iter()
        .filter(|(name, ..)| name.starts_with(before));
    known
        .map(|(name, ..)| suggestion((*name).to_owned(), 0, position))
        .collect()
}

fn suggestion(value: String, start: usize, end: usize) -> Suggestion {
    Suggestion {
        value,
        span: Span::new(start, end),
        ..Suggestion::default()
    }
}
