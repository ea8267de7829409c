//! The line editor of the repl: reedline with our prompt, history and completion.

use std::borrow::Cow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar_sandbox::protocol::visible;
use belljar_sandbox::{EntryKind, Session};
use crossterm::event::{Event, KeyEvent};
use etcetera::BaseStrategy;
use reedline::{
    Color, ColumnarMenu, Completer, CompletionResult, EditCommand, EditMode, Emacs,
    FileBackedHistory, Highlighter, HistoryItem, KeyCode, KeyModifiers, MenuBuilder, Prompt,
    PromptEditMode, PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, ReedlineRawEvent,
    Signal, Span, StyledText, Suggestion, ValidationResult, Validator, default_emacs_keybindings,
};

use crate::highlight::{Kind, pieces};
use crate::repl_actions::{COMMANDS, home};
use crate::repl_terminal::{END, enter_raw_mode, has_input, read_ahead};
use crate::{highlight, python_input, show};

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

pub(crate) struct Editor {
    editor: Reedline,
    /// What was typed before there was a prompt for it.
    ahead: String,
}

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
        let painted = Painted::default();
        let keys = Indenting {
            keys: Emacs::new(keys),
            painted: painted.clone(),
        };
        let colour =
            anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
        let editor = Reedline::create()
            .with_edit_mode(Box::new(keys))
            .with_completer(Box::new(Names(live.clone())))
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(
                ColumnarMenu::default().with_name(MENU).with_marker(""),
            )))
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_validator(Box::new(Whole))
            .with_highlighter(Box::new(Colours(painted)))
            .with_ansi_colors(colour)
            .use_bracketed_paste(true);
        let editor = match history() {
            Ok(history) => editor.with_history(Box::new(history)),
            Err(error) => {
                show::note(&crate::words::texts().session.history_not_saved(&error));
                editor
            }
        };
        let ahead = String::new();
        Self { editor, ahead }
    }

    /// Reads what becomes cell `number`. Blocks; call it where a runtime may be blocked on.
    pub(crate) fn read(&mut self, number: u32) -> std::io::Result<Typed> {
        let prompt = CellPrompt(format!("In [{number}]: "));
        read_ahead(&mut self.ahead)?;
        if self.ahead.starts_with(END) {
            return Ok(Typed::End);
        }
        if let Some(text) = self.cell_ahead() {
            let item = HistoryItem::from_command_line(&text);
            let _ = self.editor.history_mut().save(item);
            let mark = format!("\n{}", prompt.render_prompt_multiline_indicator());
            let code = highlight::python(&text).replace('\n', &mark);
            show::prompted(&prompt.0, &code);
            return Ok(Typed::Text(text));
        }
        let rest = std::mem::take(&mut self.ahead).replace(END, "");
        let rest = EditCommand::InsertString(rest);
        self.editor.run_edit_commands(&[rest]);
        enter_raw_mode()?;
        let signal = self.editor.read_line(&prompt);
        match signal.map_err(std::io::Error::other)? {
            Signal::Success(text) => {
                let _ = self.editor.sync_history();
                Ok(Typed::Text(text))
            }
            Signal::CtrlD => Ok(Typed::End),
            _ => Ok(Typed::Nothing),
        }
    }

    /// The first cell of what was typed ahead, if it is whole.
    fn cell_ahead(&mut self) -> Option<String> {
        let mut ends = self.ahead.match_indices('\n').map(|(at, _)| at);
        let end = ends.find(|end| python_input::is_complete(&self.ahead[..*end]))?;
        let cell = self.ahead[..end].to_owned();
        self.ahead.drain(..=end);
        Some(cell)
    }
}

/// The text that is on the screen, and where the cursor is in it; none if a key was pressed since.
#[derive(Clone, Debug, Default)]
struct Painted(Arc<Mutex<Option<(String, usize)>>>);

impl Painted {
    fn lock(&self) -> MutexGuard<'_, Option<(String, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The keys, of which Enter indents the new line of a block.
struct Indenting {
    keys: Emacs,
    painted: Painted,
}

impl EditMode for Indenting {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        let painted = self.painted.lock().take();
        let event = Event::from(event);
        let is_enter = matches!(
            event,
            Event::Key(KeyEvent {
                code: KeyCode::Enter,
                modifiers: KeyModifiers::NONE,
                ..
            })
        );
        // Keys that came together are not those of a person who sees the indentation.
        if is_enter
            && let Some((text, cursor)) = painted
            && !python_input::is_complete(&text)
            && !has_input()
        {
            let before = text.get(..cursor).unwrap_or_default();
            let spaces = python_input::indentation(before);
            return ReedlineEvent::UntilFound(vec![
                ReedlineEvent::MenuAccept,
                ReedlineEvent::Edit(vec![
                    EditCommand::InsertNewline,
                    EditCommand::InsertString(spaces),
                ]),
            ]);
        }
        match ReedlineRawEvent::try_from(event) {
            Ok(event) => self.keys.parse_event(event),
            Err(()) => ReedlineEvent::None,
        }
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.keys.edit_mode()
    }
}

/// The colours of code as it is typed.
struct Colours(Painted);

impl Highlighter for Colours {
    fn highlight(&self, line: &str, cursor: usize) -> StyledText {
        *self.0.lock() = Some((line.to_owned(), cursor));
        let mut text = StyledText::new();
        if line.starts_with(['/', '!']) {
            text.push((Color::Cyan.normal(), line.to_owned()));
            return text;
        }
        for (piece, kind) in pieces(line) {
            let style = match kind {
                None => Color::Default.normal(),
                Some(Kind::Word) => Color::Magenta.normal(),
                Some(Kind::String) => Color::Green.normal(),
                Some(Kind::Number) => Color::Yellow.normal(),
                Some(Kind::Comment) => Color::DarkGray.normal(),
            };
            text.push((style, piece.to_owned()));
        }
        text
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
        if before.starts_with(['/', '!']) {
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
    let typed = |command: &str| before.strip_prefix(command);
    let last_word = || typed("!")?.rsplit(char::is_whitespace).next();
    let (start, names) = if let Some(typed) = typed("/get ").or_else(last_word) {
        let listing = session.list("");
        let entries = listing.map(|listing| listing.entries).unwrap_or_default();
        let files = entries
            .into_iter()
            .filter(|entry| entry.kind == EntryKind::File);
        let names = files.map(|entry| entry.path);
        let names = names.filter(|path| path.starts_with(typed)).collect();
        (position - typed.len(), names)
    } else if let Some(typed) = ["/put ", "/save ", "/load "].into_iter().find_map(typed) {
        (position - typed.len(), host_paths(typed))
    } else {
        let known = COMMANDS.iter().map(|(name, ..)| (*name).to_owned());
        (0, known.filter(|name| name.starts_with(before)).collect())
    };
    let names: Vec<String> = names;
    names
        .into_iter()
        .filter(|name| visible(name) == *name && !name.contains(char::is_whitespace))
        .take(MAX_SUGGESTIONS)
        .map(|name| suggestion(name, start, position))
        .collect()
}

/// Files and directories of this machine whose path begins so.
fn host_paths(typed: &str) -> Vec<String> {
    let (parent, stub) = typed.split_at(typed.rfind('/').map_or(0, |at| at + 1));
    let directory = if parent.is_empty() { "." } else { parent };
    let entries = std::fs::read_dir(home(directory)).into_iter().flatten();
    let mut paths: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_meant = name.starts_with(stub) && (!stub.is_empty() || !name.starts_with('.'));
            let end = if entry.path().is_dir() { "/" } else { "" };
            is_meant.then(|| format!("{parent}{name}{end}"))
        })
        .collect();
    paths.sort();
    paths
}

fn suggestion(value: String, start: usize, end: usize) -> Suggestion {
    Suggestion {
        value,
        span: Span::new(start, end),
        ..Suggestion::default()
    }
}
