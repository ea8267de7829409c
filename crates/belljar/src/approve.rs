//! Asks the person at the terminal before code runs, or before code that runs calls a tool.
//!
//! What is shown is all of it: nothing is cut, and what would hide or move text is written out.

use std::fmt::Write as _;
use std::io::{BufRead as _, Write as _};
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::Context as _;
use belljar_agent::{Approval, Control, Decision, ShownSubject, Subject};
use belljar_sandbox::protocol::Language;
use owo_colors::OwoColorize as _;
use tokio::runtime::Handle;

use crate::run_screen::StatusLine;
use crate::settings_approvals::is_attended;
use crate::show;
use crate::words::pick;

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
            Subject::Call { .. } => None,
        };
        loop {
            eprint_text(&self.choices(code.is_some()));
            let answer = read_line()?;
            match answer.trim().to_lowercase().as_str() {
                "y" | "yes" => return Some(Decision::Accept { rest_of_run: false }),
                "r" => return Some(Decision::Accept { rest_of_run: true }),
                "n" | "no" => return Some(Decision::Reject),
                "q" => return None,
                "f" => {
                    eprint_text(pick(self.language, ["feedback: ", "反馈："]));
                    let text = read_line()?.trim().to_owned();
                    if !text.is_empty() {
                        return Some(Decision::Feedback { text });
                    }
                }
                "e" => {
                    let Some(code) = code else { continue };
                    if let Some(code) = self.edited(code) {
                        return Some(Decision::Edit { code });
                    }
                }
                _ => {}
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
            let head = pick(self.language, ["the edited code:", "编辑后的代码："]);
            let mut text = format!("{}\n", format!("── {head}").yellow().bold());
            show(&ShownSubject::of_code(&edited), self.language, &mut text);
            eprint_text(&text);
            let choices = pick(
                self.language,
                [
                    "[y] run  [e] edit again  [n] discard: ",
                    "[y] 运行  [e] 再次编辑  [n] 放弃：",
                ],
            );
            loop {
                eprint_text(&choices.bold().to_string());
                match read_line()?.trim().to_lowercase().as_str() {
                    "y" | "yes" => return Some(edited),
                    "e" => break,
                    "n" | "no" => return None,
                    _ => {}
                }
            }
        }
    }

    fn choices(&self, is_code: bool) -> String {
        let choices = match (is_code, self.language) {
            (true, Language::English) => {
                "[y] run  [r] run, and similar code in this run  [e] edit  [f] give feedback  [n] reject  [q] \
                 end the run: "
            }
            (false, Language::English) => {
                "[y] call  [r] call, and always in this run  [f] give feedback  [n] reject  [q] end the run: "
            }
            (true, Language::Chinese) => {
                "[y] 运行  [r] 运行，且本次任务不再询问同类代码  [e] 编辑  [f] 反馈  [n] 拒绝  [q] 结束任务："
            }
            (false, Language::Chinese) => {
                "[y] 调用  [r] 调用，且本次任务不再询问此工具  [f] 反馈  [n] 拒绝  [q] 结束任务："
            }
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
    let head = match &approval.shown.tool {
        None => pick(language, ["run this cell?", "运行此单元？"]).to_owned(),
        Some(tool) => format!(
            "{} {tool}?",
            pick(language, ["may the code call", "允许代码调用"])
        ),
    };
    let head = format!("── approval {}: {head}", approval.id);
    let mut out = format!("{}\n", head.yellow().bold());
    show(&approval.shown, language, &mut out);
    out
}

/// What is to run, or what a tool is to be called with.
fn show(shown: &ShownSubject, language: Language, out: &mut String) {
    for finding in &shown.findings {
        let at = pick(language, ["line", "行"]);
        let capability = finding.capability;
        let text = format!("   {capability}: {} ({at} {})", finding.what, finding.line);
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
