//! Asks the person at the terminal before code runs, or before code that runs calls a tool.
//!
//! What is shown is all of it: nothing is cut, and what would hide or move text is written out.

use std::fmt::Write as _;
use std::io::{BufRead as _, Write as _};
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::Context as _;
use belljar_agent::{Approval, Control, Decision, ShownSubject, Subject};
use belljar_sandbox::protocol::texts::RunTexts;
use belljar_sandbox::protocol::{Language, visible};
use owo_colors::OwoColorize as _;
use tokio::runtime::Handle;

use crate::run_screen::StatusLine;
use crate::settings_approvals::is_attended;
use crate::show;

/// The person at the terminal.
#[derive(Debug)]
pub(crate) struct Person(Sender<Approval>);

impl Person {
    /// None where there is nobody.
    pub(crate) fn at_terminal(
        control: Control,
        status: StatusLine,
        language: Language,
    ) -> Option<Self> {
        if !is_attended() {
            return None;
        }
        let (sender, asked) = channel();
        let desk = Desk {
            control,
            status,
            language,
            runtime: Handle::current(),
        };
        // A thread of its own: nothing waits for it when the program ends while it waits for a key.
        std::thread::spawn(move || desk.serve(&asked));
        Some(Self(sender))
    }

    /// Asks for one thing after the other.
    pub(crate) fn ask(&self, approval: &Approval) {
        let _ = self.0.send(approval.clone());
    }
}

struct Desk {
    control: Control,
    status: StatusLine,
    language: Language,
    runtime: Handle,
}

impl Desk {
    fn texts(&self) -> &'static RunTexts {
        &self.language.texts().run
    }

    fn serve(&self, asked: &Receiver<Approval>) {
        for approval in asked {
            self.status.hold(true);
            eprint_text(&text(&approval, self.language));
            let decision = self.decision(&approval);
            self.status.hold(false);
            let Some(decision) = decision else {
                self.control.stop();
                return;
            };
            let decided = self.control.decide(&approval.id, &approval.hash, decision);
            if let Err(error) = self.runtime.block_on(decided) {
                show::note(&format!("[{error}]"));
            }
        }
    }

    /// What the person says; none to end the run.
    fn decision(&self, approval: &Approval) -> Option<Decision> {
        let code = match &approval.subject {
            Subject::Cell { code, .. } => Some(code),
            Subject::Command { .. } | Subject::Call { .. } => None,
        };
        loop {
            eprint_text(&self.choices(code.is_some()));
            let answer = read_line()?;
            match answer.trim().to_lowercase().as_str() {
                // The keys of the web interface, and what people type anyway.
                "a" | "y" | "yes" => return Some(Decision::Accept { rest_of_run: false }),
                "d" => return Some(Decision::Accept { rest_of_run: true }),
                "r" | "n" | "no" => return Some(Decision::Reject),
                "q" => return None,
                "f" => {
                    eprint_text(self.texts().feedback);
                    let text = read_line()?.trim().to_owned();
                    if !text.is_empty() {
                        return Some(Decision::Feedback { text });
                    }
                }
                "e" if code.is_some() => {
                    if let Some(code) = code.and_then(|code| self.edited(code)) {
                        return Some(Decision::Edit { code });
                    }
                }
                typed => self.explain(typed),
            }
        }
    }

    /// What the person makes of the code, once they have seen it as it would run. Nothing where they leave it.
    fn edited(&self, code: &str) -> Option<String> {
        let mut edited = code.to_owned();
        loop {
            match edit(&edited) {
                Ok(same) if same == code => return None,
                Ok(changed) => edited = changed,
                Err(error) => {
                    show::error(&error);
                    return None;
                }
            }
            let head = self.texts().edited_code;
            let mut text = format!("{}\n", head.yellow().bold());
            show(&ShownSubject::of_code(&edited), self.language, &mut text);
            eprint_text(&text);
            let choices = self.texts().edited_choices;
            loop {
                eprint_text(&choices.bold().to_string());
                match read_line()?.trim().to_lowercase().as_str() {
                    "a" | "y" | "yes" => return Some(edited),
                    "e" => break,
                    "r" | "n" | "no" => return None,
                    typed => self.explain(typed),
                }
            }
        }
    }

    fn explain(&self, typed: &str) {
        let typed: String = visible(typed).chars().take(20).collect();
        show::note(&self.texts().no_such_choice(&typed));
    }

    fn choices(&self, is_code: bool) -> String {
        let choices = if is_code {
            self.texts().cell_choices
        } else {
            self.texts().call_choices
        };
        choices.bold().to_string()
    }
}

pub(crate) fn eprint_text(text: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}

fn read_line() -> Option<String> {
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(read) if read > 0 => Some(line),
        _ => None,
    }
}

/// Has the person's editor change code.
fn edit(code: &str) -> anyhow::Result<String> {
    let named = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let editor = named.unwrap_or_else(|| "vi".into());
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let file = tempfile::Builder::new().suffix(".py").tempfile()?;
    std::fs::write(file.path(), code)?;
    let status = std::process::Command::new(program)
        .args(words)
        .arg(file.path())
        .status()
        .with_context(|| {
            format!("cannot start the editor `{program}`, named by `VISUAL` or `EDITOR`")
        })?;
    anyhow::ensure!(status.success(), "`{program}` exited with {status}");
    Ok(std::fs::read_to_string(file.path())?)
}

/// All that a person needs to decide.
pub(crate) fn text(approval: &Approval, language: Language) -> String {
    let texts = &language.texts().run;
    let question = match &approval.shown.tool {
        None => texts.may_run.to_owned(),
        Some(tool) => texts.may_call(tool),
    };
    let head = texts.approval(&approval.id, &question);
    let mut out = format!("{}\n", head.yellow().bold());
    show(&approval.shown, language, &mut out);
    out
}

/// What is to run, or what a tool is to be called with.
fn show(shown: &ShownSubject, language: Language, out: &mut String) {
    for finding in &shown.findings {
        let capability = finding.capability;
        let texts = &language.texts().run;
        let text = texts.finding(&capability, &finding.what, finding.line);
        let _ = if capability.is_risky() {
            writeln!(out, "{}", text.red())
        } else {
            writeln!(out, "{}", text.dimmed())
        };
    }
    for remark in &shown.remarks {
        let _ = writeln!(out, "{}", format!("   ! {remark}").red().bold());
    }
    for row in &shown.rows {
        let _ = match row.line {
            Some(line) => write!(out, "{:>4} {} ", line.dimmed(), "│".cyan()),
            None => write!(out, "     {} ", "┊".cyan()),
        };
        for part in &row.parts {
            let _ = if part.odd {
                write!(out, "{}", part.text.red().bold())
            } else {
                write!(out, "{}", part.text)
            };
        }
        out.push('\n');
    }
}

#[cfg(test)]
#[path = "../../belljar-protocol/src/approval/tricks.rs"]
mod tricks;

#[cfg(test)]
mod tests {
    use super::tricks::tricks;
    use super::*;
    use belljar_agent::{Approvals, Policy};

    /// Attack L5: each trick is seen at the terminal, in code and in what a tool is called with.
    #[test]
    fn l5_every_trick_is_seen() {
        let approvals = Approvals {
            policy: Policy::Always,
            ..Approvals::default()
        };
        for trick in tricks() {
            let approval = approvals.ask_for_code(&trick.code()).unwrap();
            let seen = text(&approval, Language::English);
            trick.check(&anstream::adapter::strip_str(&seen).to_string());
        }
    }
}
