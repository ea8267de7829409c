//! Asks the person at the terminal before code runs, or before code that runs calls a tool.
//!
//! What is shown is all of it: nothing is cut, and what would hide or move text is written out.

use std::fmt::Write as _;
use std::io::{BufRead as _, Write as _};
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::Context as _;
use belljar_agent::{Approval, Control, Decision, Finding, Subject};
use belljar_sandbox::protocol::{Language, approval_text, oddities};
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
                    eprint_text(pick(self.language, ["what to tell: ", "反馈："]));
                    let text = read_line()?.trim().to_owned();
                    if !text.is_empty() {
                        return Some(Decision::Feedback { text });
                    }
                }
                "e" => {
                    let Some(code) = code else { continue };
                    match edit(code) {
                        Ok(edited) if edited == *code => {}
                        Ok(code) => return Some(Decision::Edit { code }),
                        Err(error) => show::error(&error),
                    }
                }
                _ => {}
            }
        }
    }

    fn choices(&self, is_code: bool) -> String {
        let choices = match (is_code, self.language) {
            (true, Language::English) => {
                "[y] run it  [r] and don't ask for the like again  [e] edit  [f] say what to change  [n] don't  [q] end the run: "
            }
            (false, Language::English) => {
                "[y] call it  [r] and don't ask for this tool again  [f] say why not  [n] don't  [q] end the run: "
            }
            (true, Language::Chinese) => {
                "[y] 运行  [r] 运行且不再询问同类  [e] 编辑  [f] 提出修改  [n] 不运行  [q] 结束任务："
            }
            (false, Language::Chinese) => {
                "[y] 调用  [r] 调用且不再询问此工具  [f] 说明原因  [n] 不调用  [q] 结束任务："
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
        .with_context(|| format!("starting `{program}`\nhint: EDITOR names an editor"))?;
    anyhow::ensure!(status.success(), "`{program}` ended with {status}");
    Ok(std::fs::read_to_string(file.path())?)
}

/// All that a person needs to decide.
pub(crate) fn text(approval: &Approval, language: Language) -> String {
    let mut out = String::new();
    let id = &approval.id;
    match &approval.subject {
        Subject::Cell { code, risk } => {
            let head = pick(language, ["run this cell?", "运行此单元？"]);
            let _ = writeln!(
                out,
                "{}",
                format!("── approval {id}: {head}").yellow().bold()
            );
            for Finding {
                capability,
                what,
                line,
            } in &risk.findings
            {
                let at = pick(language, ["line", "行"]);
                let finding = format!("   {capability}: {what} ({at} {line})");
                if capability.is_risky() {
                    let _ = writeln!(out, "{}", finding.red());
                } else {
                    let _ = writeln!(out, "{}", finding.dimmed());
                }
            }
            for remark in oddities(code) {
                let _ = writeln!(out, "{}", format!("   ! {remark}").red().bold());
            }
            for (number, line) in (1..).zip(approval_text(code).lines()) {
                let _ = writeln!(out, "{:>4} {} {line}", number.dimmed(), "│".cyan());
            }
        }
        Subject::Call {
            tool, arguments, ..
        } => {
            let head = pick(language, ["may the code call", "允许代码调用"]);
            let tool = approval_text(tool);
            let head = format!("── approval {id}: {head} {tool}?");
            let _ = writeln!(out, "{}", head.yellow().bold());
            let arguments = serde_json::to_string_pretty(arguments).unwrap_or_default();
            for remark in oddities(&arguments) {
                let _ = writeln!(out, "{}", format!("   ! {remark}").red().bold());
            }
            for line in approval_text(&arguments).lines() {
                let _ = writeln!(out, "   {line}");
            }
        }
    }
    out
}
