//! Markdown: a block of Python is a cell, a line that begins with `FINAL:` begins the answer.
//!
//! Both are what small models write most reliably: a fenced block is the commonest form of code in
//! what they were trained on, and a word at the start of a line needs no closing mark that could be
//! forgotten. A block whose label is a tool's name holds that tool's arguments as JSON.

use belljar_protocol::Language;
use belljar_protocol::texts::ReplyMarks;
use serde_json::Value;

use super::fences::{Block, Piece, pieces};
use super::{
    ANSWER, Action, Found, Mended, Mending, PYTHON, Problem, Reader, add_cell, loose, native,
    python, strip_prefix_any_case,
};

pub(super) fn parse(reader: &Reader<'_>, mended: &mut Mended) -> Result<Found, Problem> {
    let pieces = pieces(reader.text);
    let labelled = pieces
        .iter()
        .any(|piece| matches!(piece, Piece::Block(block) if is_python(block.label)));
    let mut collected = Collected::default();
    let mut prose = "";
    for piece in &pieces {
        match piece {
            Piece::Prose { text, start } => {
                prose = text;
                if !collected.prose(text, *start, reader, mended) {
                    break;
                }
            }
            Piece::Block(block) => {
                collected.block(block, prose, labelled, reader, mended)?;
                prose = "";
            }
        }
    }
    if let (true, Some(answer)) = (collected.actions.is_empty(), collected.answer) {
        if reader.truncated {
            return Err(Problem::Truncated);
        }
        collected.actions.push(Action::answer(answer.trim()));
    } else if collected.answer.is_some() {
        mended.add(Mending::AnswerHeldBack);
    }
    if collected.actions.is_empty() && !reader.truncated {
        let text = reader.text.trim_end();
        if python::is_program(text) {
            mended.add(Mending::FenceMissing);
            collected.thought.clear();
            collected
                .actions
                .push(Action::python(&python::mend(text, mended)));
        }
    }
    if collected.actions.is_empty() {
        return Err(reader.nothing());
    }
    if collected.cut {
        mended.add(Mending::CutTailDropped);
    }
    Ok(Found {
        thought: collected.thought,
        actions: collected.actions,
    })
}

#[derive(Default)]
struct Collected<'a> {
    thought: String,
    actions: Vec<Action>,
    answer: Option<&'a str>,
    /// The reply was cut in the middle of a block.
    cut: bool,
}

impl<'a> Collected<'a> {
    /// Looks at text between blocks; false where nothing after it counts.
    fn prose(
        &mut self,
        text: &'a str,
        start: usize,
        reader: &Reader<'a>,
        mended: &mut Mended,
    ) -> bool {
        let mut at = start;
        for line in text.split_inclusive('\n') {
            if !self.actions.is_empty() && is_observation(line) {
                mended.add(Mending::ObservationCut);
                return false;
            }
            if let Some((rest, canonical)) = answer_mark(line) {
                let from = at + (line.len() - rest.len());
                if !canonical {
                    mended.add(Mending::AnswerMark);
                }
                self.answer = Some(&reader.text[from..]).filter(|text| !text.trim().is_empty());
                return self.answer.is_none();
            }
            if self.actions.is_empty() {
                self.thought.push_str(line);
            }
            at += line.len();
        }
        true
    }

    fn block(
        &mut self,
        block: &Block<'a>,
        prose: &str,
        labelled: bool,
        reader: &Reader<'_>,
        mended: &mut Mended,
    ) -> Result<(), Problem> {
        if block.body.trim().is_empty() || self.answer.is_some() {
            return Ok(());
        }
        if block.open && reader.truncated {
            self.cut = true;
            return Ok(());
        }
        let label = block.label.to_ascii_lowercase();
        if ["answer", "final", "final_answer", "final-answer"].contains(&label.as_str()) {
            mended.add(Mending::AnswerMark);
            self.answer = Some(block.body);
            return Ok(());
        }
        if label != PYTHON && label != ANSWER && reader.knows(block.label) {
            let (value, _) = loose::read(block.body.trim(), 0, &reader.keys(&[]), false, mended)
                .or_else(|fault| {
                    if native::takes_code(block.label) {
                        // An expression as it is, instead of an object that holds it.
                        return Ok((Value::String(block.body.trim().into()), 0));
                    }
                    Err(Problem::Json {
                        expected: fault.expected.into(),
                        near: fault.near(block.body.trim()),
                    })
                })?;
            let action = native::tool(block.label, value, None, mended)?;
            self.actions.push(action);
            return Ok(());
        }
        let last = prose.trim().lines().next_back().unwrap_or_default();
        let code = is_python(&label)
            || label.is_empty() && !labelled && !is_observation(last) && {
                let mut trial = Mended::default();
                python::is_program(&python::mend(block.body, &mut trial))
            };
        if !code {
            match label.as_str() {
                "bash" | "sh" | "shell" | "zsh" | "cmd" => mended.add(Mending::ShellBlockDropped),
                "" | "output" | "text" | "txt" | "console" | "plaintext" | "stdout" | "result" => {
                    mended.add(Mending::OutputBlockDropped);
                }
                // Of another language: part of what is said.
                _ => {}
            }
            return Ok(());
        }
        if !self.actions.is_empty() && is_alternative(last) {
            mended.add(Mending::AlternativeDropped);
            return Ok(());
        }
        if block.odd_close {
            mended.add(Mending::FenceClosed);
        }
        add_cell(&mut self.actions, &python::mend(block.body, mended), mended);
        Ok(())
    }
}

fn is_python(label: &str) -> bool {
    python::is_language(label)
        || [
            "tool_code",
            "python-exec",
            "execute",
            "code",
            "execution-code",
            "repl",
        ]
        .into_iter()
        .any(|name| label.eq_ignore_ascii_case(name))
}

/// Marks of one kind, of all languages: a model may reply in another than it was asked in.
fn marks(
    kind: fn(&'static ReplyMarks) -> &'static [&'static str],
) -> impl Iterator<Item = &'static str> {
    let all = Language::ALL.iter();
    all.flat_map(move |language| kind(&language.texts().replies))
        .copied()
}

/// Whether a line announces the output of code.
pub(super) fn is_observation(line: &str) -> bool {
    let line = bare(line);
    marks(|marks| marks.output).any(|mark| {
        let Some(rest) = strip_prefix_any_case(line, mark) else {
            return false;
        };
        let rest = rest.trim_start_matches(['*', '_', ' ']);
        rest.starts_with([':', '：']) || (mark == "the output" && rest.trim_end().ends_with(':'))
    })
}

fn is_alternative(line: &str) -> bool {
    let line = line.to_lowercase();
    marks(|marks| marks.alternative).any(|mark| line.contains(mark))
}

/// What follows a mark of the answer, and whether it is the mark that was asked for.
fn answer_mark(line: &str) -> Option<(&str, bool)> {
    if let Some(rest) = line.trim_start().strip_prefix("FINAL:") {
        return Some((rest, true));
    }
    let line = bare(line);
    marks(|marks| marks.answer).find_map(|mark| {
        let rest = strip_prefix_any_case(line, mark)?;
        let rest = rest.trim_start_matches(['*', '_', ' ']);
        let after = rest.strip_prefix([':', '：']);
        let after = after.or((mark == "the final answer is").then_some(rest))?;
        Some((after.trim_start_matches('*'), false))
    })
}

/// A line without Markdown's marks at its start.
fn bare(line: &str) -> &str {
    line.trim_start_matches(['#', '*', '>', '_', ' ', '\t', '-'])
}
