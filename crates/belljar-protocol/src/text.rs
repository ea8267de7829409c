//! An outcome as text for a model: its output, its error, what to do next.
//!
//! The program's output is made [`plain`], names that it chose [`visible`]. An outcome as JSON has
//! both unchanged.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::{Cause, Fate, Outcome, Status, Walls, plain, signal_name, visible};

/// A language of text for people or models.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Simplified Chinese, in the wording of RES-1.
    Chinese,
}

impl Outcome {
    /// The outcome as text for a model. `code` is the cell's source, shown with line numbers if the
    /// cell failed.
    pub fn text(&self, code: &str, language: Language) -> String {
        let words = Words::for_language(language);
        let mut out = format!("## {}\n### {}\n", words.headline(self.status), words.output);
        self.write_output(&mut out);
        match self.status {
            Status::Success => {}
            Status::Failure => {
                let _ = writeln!(out, "### {}", words.code);
                for (number, line) in (1..).zip(code.lines()) {
                    let _ = writeln!(out, "{number:>4} | {}", plain(line));
                }
                if let Some(exception) = &self.exception {
                    let _ = writeln!(out, "### {}", words.error);
                    out.push_str(&plain(&exception.traceback));
                    end_line(&mut out);
                }
            }
            Status::Timeout => {
                if let Cause::WallTime { limit_ms } | Cause::CpuTime { limit_ms } = self.cause {
                    let seconds = Seconds(limit_ms);
                    let _ = match language {
                        Language::English => writeln!(out, "### {} {seconds} s", words.limit),
                        Language::Chinese => writeln!(out, "### {}{seconds} 秒", words.limit),
                    };
                }
            }
            Status::Crashed => {
                let _ = writeln!(out, "### {}{}", words.exit_code, self.exit_code);
            }
        }
        self.write_rest(words, &mut out);
        if let Some(next) = self.next_step(language) {
            let _ = writeln!(out, "### {}", words.next);
            let _ = writeln!(out, "{next}");
        }
        out
    }

    /// The outcome for a model that sees the cell anyway: without its source, and without a
    /// headline of success. It ends with what to do, since that is what small models follow.
    pub fn brief(&self, language: Language) -> String {
        let words = Words::for_language(language);
        let mut out = String::new();
        self.write_output(&mut out);
        if let Some(exception) = &self.exception {
            out.push_str(&plain(&exception.traceback));
            end_line(&mut out);
        } else if out.is_empty() {
            out.push_str(words.no_output);
        }
        self.write_rest(words, &mut out);
        let english = language == Language::English;
        let brief = match (&self.cause, english) {
            (Cause::Exception | Cause::Syntax, true) => {
                Some("The code failed. Find the cause, and run corrected code.".to_owned())
            }
            (Cause::Exception | Cause::Syntax, false) => {
                Some("代码失败了。请找出原因，并运行修正后的代码。".to_owned())
            }
            (Cause::WallTime { limit_ms } | Cause::CpuTime { limit_ms }, true) => Some(format!(
                "It was stopped after {} s. Find a faster way: no repeated work, loops instead of recursion.",
                Seconds(*limit_ms)
            )),
            (Cause::WallTime { limit_ms } | Cause::CpuTime { limit_ms }, false) => Some(format!(
                "运行 {} 秒后被停止。请找更快的做法：不做重复计算，用循环代替递归。",
                Seconds(*limit_ms)
            )),
            _ => None,
        };
        let next = match brief {
            Some(words) if self.state != Fate::Kept => Some(words + &self.fate(language)),
            Some(words) => Some(words),
            None => self.next_step(language),
        };
        if let Some(next) = next {
            let _ = writeln!(out, "{next}");
        }
        out
    }

    /// Output and displays.
    fn write_output(&self, out: &mut String) {
        let shown = self.displays.iter().filter_map(|display| display.text());
        for text in [self.transcript.as_str()].into_iter().chain(shown) {
            out.push_str(&plain(text));
            end_line(out);
        }
    }

    /// Files, notes, missing walls.
    fn write_rest(&self, words: &Words, out: &mut String) {
        if !self.artifacts.is_empty() {
            let _ = writeln!(out, "### {}", words.files);
            for artifact in &self.artifacts {
                let path = visible(&artifact.path);
                let _ = writeln!(out, "/workspace/{path} ({} B)", artifact.size);
            }
        }
        if !self.notes.is_empty() {
            let _ = writeln!(out, "### {}", words.notes);
            for note in &self.notes {
                let _ = writeln!(out, "- {}", visible(note));
            }
        }
        if self.walls == Walls::None {
            let _ = writeln!(out, "### {}", words.no_walls);
        }
    }

    /// One sentence: why the cell did not succeed, what became of the variables, and what to do
    /// next; none if there is nothing to do.
    pub fn next_step(&self, language: Language) -> Option<String> {
        if self.status == Status::Success {
            return None;
        }
        let english = language == Language::English;
        let why = match (&self.cause, english) {
            (Cause::Exception, _) if let Some(package) = &self.package => {
                missing_package(package, language)
            }
            (Cause::Completed | Cause::Exception, true) => {
                "The exception above came from the code; correct the line it names and run again."
                    .into()
            }
            (Cause::Completed | Cause::Exception, false) => {
                "上面的异常来自代码本身；请修改所指出的行后重新运行。".into()
            }
            (Cause::Syntax, true) => {
                "The code did not compile, so nothing of it ran; correct the syntax and run again."
                    .into()
            }
            (Cause::Syntax, false) => {
                "代码未能通过编译，没有执行任何语句；请修正语法后重新运行。".into()
            }
            (Cause::Exit { code }, true) => match self.status {
                Status::Failure => format!(
                    "The code called sys.exit({code}); remove the call if the rest should run."
                ),
                _ => format!(
                    "The process exited with code {code}{}; do not call os._exit.",
                    death_by(*code, " (128 + ", ")")
                ),
            },
            (Cause::Exit { code }, false) => match self.status {
                Status::Failure => {
                    format!("代码调用了 sys.exit({code})；如需继续执行，请去掉该调用。")
                }
                _ => format!(
                    "进程以退出码 {code} 结束{}；请不要调用 os._exit。",
                    death_by(*code, "（128 + ", "）")
                ),
            },
            (Cause::Interrupted, true) => "The caller interrupted the cell.".into(),
            (Cause::Interrupted, false) => "调用方中断了该单元。".into(),
            (Cause::WallTime { limit_ms }, true) => format!(
                "The cell ran longer than {} s; do less work at once, or ask for a longer limit.",
                Seconds(*limit_ms)
            ),
            (Cause::WallTime { limit_ms }, false) => {
                format!(
                    "该单元运行超过 {} 秒；请减少单次工作量，或申请更长的时限。",
                    Seconds(*limit_ms)
                )
            }
            (Cause::CpuTime { limit_ms }, true) => format!(
                "The cell used more than {} s of CPU time; do less work at once.",
                Seconds(*limit_ms)
            ),
            (Cause::CpuTime { limit_ms }, false) => {
                format!(
                    "该单元使用的 CPU 时间超过 {} 秒；请减少单次工作量。",
                    Seconds(*limit_ms)
                )
            }
            (Cause::Memory { limit_bytes }, true) => format!(
                "The session used up its {} MiB of memory and was ended; load less at once, use smaller types or work in chunks.",
                limit_bytes >> 20
            ),
            (Cause::Memory { limit_bytes }, false) => format!(
                "会话用尽了 {} MiB 内存并被终止；请减少一次载入的数据，使用更小的类型或分块处理。",
                limit_bytes >> 20
            ),
            (Cause::Signal { name, .. }, true) => {
                format!(
                    "The process was ended by {name}{}; avoid the native call that caused it.",
                    meaning(name, language)
                )
            }
            (Cause::Signal { name, .. }, false) => {
                format!(
                    "进程被 {name}{} 终止；请避免引发该信号的本地调用。",
                    meaning(name, language)
                )
            }
            (Cause::OutputLimit { limit_bytes }, true) => {
                format!(
                    "The cell wrote more than {} MiB; print less, or write to a file.",
                    limit_bytes >> 20
                )
            }
            (Cause::OutputLimit { limit_bytes }, false) => {
                format!(
                    "该单元输出超过 {} MiB；请减少打印，或写入文件。",
                    limit_bytes >> 20
                )
            }
            (Cause::Protocol { detail }, true) => format!(
                "The process broke its channel to the host ({}); do not write to descriptors you did not open.",
                visible(detail)
            ),
            (Cause::Protocol { detail }, false) => format!(
                "进程破坏了与宿主的通道（{}）；请不要写入并非自己打开的描述符。",
                visible(detail)
            ),
        };
        Some(why + &self.fate(language))
    }

    /// What became of the variables.
    fn fate(&self, language: Language) -> String {
        match (self.state, language == Language::English) {
            (Fate::Kept, true) => " Variables of earlier cells are kept.".into(),
            (Fate::Kept, false) => "此前单元的变量均已保留。".into(),
            (Fate::Restored { cell: 0 }, true) => {
                " Variables are back as they were before the first cell.".into()
            }
            (Fate::Restored { cell: 0 }, false) => "变量已恢复到第 1 个单元之前的状态。".into(),
            (Fate::Restored { cell }, true) => {
                format!(" Variables are back as they were after cell {cell}.")
            }
            (Fate::Restored { cell }, false) => format!("变量已恢复到第 {cell} 个单元之后的状态。"),
            (Fate::Lost, true) => {
                " All variables are lost: define them again in a new session.".into()
            }
            (Fate::Lost, false) => "所有变量均已丢失：请在新会话中重新定义。".to_owned(),
        }
    }
}

/// What to do if a module was not found that a known package has.
fn missing_package(package: &str, language: Language) -> String {
    let package = visible(package);
    match language {
        Language::English => format!(
            "The module is not installed; the package `{package}` has it: write `# requires: {package}` as the first line of the code and run again."
        ),
        Language::Chinese => format!(
            "该模块尚未安装，可由软件包 `{package}` 提供：请在代码首行写上 `# requires: {package}` 后重新运行。"
        ),
    }
}

/// What an exit code above 128 means by convention.
fn death_by(code: i64, open: &str, close: &str) -> String {
    match i32::try_from(code) {
        Ok(code @ 129..=159) => format!("{open}{}{close}", signal_name(code - 128)),
        _ => String::new(),
    }
}

fn meaning(signal: &str, language: Language) -> &'static str {
    match (signal, language) {
        ("SIGSEGV" | "SIGBUS", Language::English) => " (invalid memory access)",
        ("SIGSEGV" | "SIGBUS", Language::Chinese) => "（非法内存访问）",
        ("SIGABRT", Language::English) => " (abort)",
        ("SIGABRT", Language::Chinese) => "（主动中止）",
        ("SIGFPE", Language::English) => " (arithmetic fault)",
        ("SIGFPE", Language::Chinese) => "（算术错误）",
        ("SIGILL", Language::English) => " (illegal instruction)",
        ("SIGILL", Language::Chinese) => "（非法指令）",
        ("SIGKILL", Language::English) => " (killed)",
        ("SIGKILL", Language::Chinese) => "（强制结束）",
        ("SIGSYS", Language::English) => " (forbidden system call)",
        ("SIGSYS", Language::Chinese) => "（被禁止的系统调用）",
        _ => "",
    }
}

fn end_line(out: &mut String) {
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
}

/// Milliseconds shown as seconds, without a useless fraction.
struct Seconds(u64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, rest) = (self.0 / 1000, self.0 % 1000);
        if rest == 0 {
            write!(f, "{whole}")
        } else {
            let digits = format!("{rest:03}");
            write!(f, "{whole}.{}", digits.trim_end_matches('0'))
        }
    }
}

struct Words {
    headlines: [&'static str; 4],
    output: &'static str,
    code: &'static str,
    error: &'static str,
    limit: &'static str,
    exit_code: &'static str,
    files: &'static str,
    notes: &'static str,
    next: &'static str,
    no_walls: &'static str,
    no_output: &'static str,
}

impl Words {
    fn for_language(language: Language) -> &'static Self {
        match language {
            Language::English => &ENGLISH,
            Language::Chinese => &CHINESE,
        }
    }

    fn headline(&self, status: Status) -> &'static str {
        self.headlines[match status {
            Status::Success => 0,
            Status::Failure => 1,
            Status::Timeout => 2,
            Status::Crashed => 3,
        }]
    }
}

static ENGLISH: Words = Words {
    headlines: [
        "The code ran to its end",
        "The code failed; the error below says where",
        "The code was stopped at its time limit",
        "The process that ran the code is gone",
    ],
    output: "Terminal output:",
    code: "Source:",
    error: "Error:",
    limit: "Time limit:",
    exit_code: "Exit code: ",
    files: "Files created or changed:",
    notes: "Left out:",
    next: "What to do next:",
    no_walls: "This code ran WITHOUT walls (--walls=none): on the host itself, as its user",
    no_output: "(no output; print what you want to see)\n",
};

static CHINESE: Words = Words {
    headlines: [
        "代码执行成功，输出结果完整，任务完成",
        "代码执行失败，代码抛出异常，根据报错信息进行调试",
        "代码执行超时，强制退出执行，调整超时时间后重试",
        "代码执行崩溃，进程异常退出，根据报错信息进行调试",
    ],
    output: "终端输出：",
    code: "原始代码：",
    error: "报错信息：",
    limit: "超出限制的时间：",
    exit_code: "退出状态码：",
    files: "新建或修改的文件：",
    notes: "未包含的内容：",
    next: "下一步：",
    no_walls: "此代码在没有隔离的情况下运行（--walls=none）：直接在宿主机上，以其用户身份",
    no_output: "（没有输出；请打印需要查看的内容）\n",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Artifact, ArtifactChange, Changes, Display, DisplayData};
    use crate::{Durations, ExceptionInfo, Output};

    fn outcome(status: Status, cause: Cause, state: Fate) -> Outcome {
        Outcome {
            cell: 1,
            network: None,
            walls: Walls::Full,
            status,
            cause,
            state,
            exit_code: 0,
            exception: None,
            package: None,
            stdout: Output::default(),
            stderr: Output::default(),
            transcript: "out\n".into(),
            displays: vec![],
            artifacts: vec![],
            changes: Changes::default(),
            notes: vec![],
            durations: Durations::default(),
            peak_memory_bytes: None,
        }
    }

    fn failure() -> Outcome {
        let mut failure = outcome(Status::Failure, Cause::Exception, Fate::Kept);
        failure.exception = Some(ExceptionInfo {
            type_name: "ZeroDivisionError".into(),
            value: "division by zero".into(),
            repr: "ZeroDivisionError('division by zero')".into(),
            traceback: "Traceback …\nZeroDivisionError: division by zero".into(),
            line: Some(2),
        });
        failure
    }

    /// RES-1: the Chinese wording of the digest, and the same structure in English.
    #[test]
    fn res_1_texts() {
        let success = outcome(Status::Success, Cause::Completed, Fate::Kept);
        assert_eq!(
            success.text("", Language::Chinese),
            "## 代码执行成功，输出结果完整，任务完成\n### 终端输出：\nout\n"
        );
        assert_eq!(
            success.text("", Language::English),
            "## The code ran to its end\n### Terminal output:\nout\n"
        );

        let open = Outcome {
            walls: Walls::None,
            ..success
        };
        assert!(open.text("", Language::English).contains("WITHOUT walls"));
        assert!(open.text("", Language::Chinese).contains("--walls=none"));

        let failure = failure();
        assert_eq!(
            failure.text("a = 1\na / 0", Language::Chinese),
            "## 代码执行失败，代码抛出异常，根据报错信息进行调试\n### 终端输出：\nout\n### 原始代码：\n   1 | a = 1\n   2 | a / 0\n### 报错信息：\nTraceback …\nZeroDivisionError: division by zero\n### 下一步：\n上面的异常来自代码本身；请修改所指出的行后重新运行。此前单元的变量均已保留。\n"
        );

        let timeout = outcome(
            Status::Timeout,
            Cause::WallTime { limit_ms: 3000 },
            Fate::Lost,
        );
        let text = timeout.text("", Language::Chinese);
        assert!(text.starts_with("## 代码执行超时，强制退出执行，调整超时时间后重试\n### 终端输出：\nout\n### 超出限制的时间：3 秒\n"), "{text}");

        let mut crashed = outcome(Status::Crashed, Cause::Exit { code: 139 }, Fate::Lost);
        crashed.exit_code = 139;
        let text = crashed.text("", Language::Chinese);
        assert!(text.starts_with("## 代码执行崩溃，进程异常退出，根据报错信息进行调试\n### 终端输出：\nout\n### 退出状态码：139\n"), "{text}");
        assert!(text.contains("SIGSEGV"), "{text}");
    }

    /// A model that sees the cell gets the result, and nothing twice.
    #[test]
    fn brief_texts() {
        let mut success = outcome(Status::Success, Cause::Completed, Fate::Kept);
        assert_eq!(success.brief(Language::English), "out\n");
        success.transcript.clear();
        assert!(success.brief(Language::English).starts_with("(no output"));

        let mut failure = failure();
        assert_eq!(
            failure.brief(Language::English),
            "out\nTraceback …\nZeroDivisionError: division by zero\nThe code failed. Find the cause, and run corrected code.\n"
        );
        failure.state = Fate::Restored { cell: 3 };
        assert!(failure.brief(Language::English).contains("after cell 3"));
        let timeout = outcome(
            Status::Timeout,
            Cause::WallTime { limit_ms: 3000 },
            Fate::Kept,
        );
        assert!(
            timeout
                .brief(Language::English)
                .contains("stopped after 3 s")
        );
    }

    /// E5, E6, C10: whatever a program writes, raises, shows or names: the text has no commands to a
    /// terminal and no disguised names, and the outcome's JSON has all of it.
    #[test]
    fn e5_a_programs_words_are_plain() {
        const EVIL: &str = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\u{9b}31mok\0\x08";
        let mut outcome = outcome(Status::Failure, Cause::Exception, Fate::Kept);
        outcome.transcript = format!("{EVIL}out\roverwritten\r\n");
        outcome.exception = Some(ExceptionInfo {
            type_name: EVIL.into(),
            value: EVIL.into(),
            repr: EVIL.into(),
            traceback: format!("{EVIL}traceback"),
            line: None,
        });
        outcome.displays.push(Display {
            parts: vec![DisplayData {
                mime: "text/plain".into(),
                data: format!("{EVIL}display").into_bytes(),
            }],
        });
        outcome.artifacts.push(Artifact {
            path: "a\u{202e}\nb".into(),
            size: 1,
            change: ArtifactChange::Created,
        });
        outcome.notes.push("x\n### Error:".into());
        let text = outcome.text(&format!("# {EVIL}"), Language::English);
        let control = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(control), "{text:?}");
        for part in [
            "\nokout\noverwritten\nokdisplay\n",
            "   1 | # ok\n",
            "\noktraceback\n",
            "/workspace/a<U+202E><U+000A>b (1 B)\n",
            "- x<U+000A>### Error:\n",
        ] {
            assert!(text.contains(part), "{part:?} in {text:?}");
        }
        outcome.cause = Cause::Protocol {
            detail: EVIL.into(),
        };
        for language in [Language::English, Language::Chinese] {
            assert!(!outcome.text("", language).contains(control));
        }
        let json = serde_json::to_string(&outcome).unwrap();
        assert!(
            !json.contains('\x1b') && json.contains(r"\u001b[2J"),
            "{json}"
        );
        assert_eq!(serde_json::from_str::<Outcome>(&json).unwrap(), outcome);
    }

    /// RES-2: a failing outcome of any cause says why, the fate of the state, and what to do.
    #[test]
    fn res_2_every_cause_has_a_next_step() {
        let causes = [
            Cause::Exception,
            Cause::Syntax,
            Cause::Exit { code: 3 },
            Cause::Interrupted,
            Cause::WallTime { limit_ms: 1500 },
            Cause::CpuTime { limit_ms: 1000 },
            Cause::Memory {
                limit_bytes: 1 << 30,
            },
            Cause::Signal {
                number: 11,
                name: "SIGSEGV".into(),
            },
            Cause::OutputLimit {
                limit_bytes: 1 << 20,
            },
            Cause::Protocol { detail: "x".into() },
        ];
        for cause in causes {
            for (state, english) in [(Fate::Kept, "kept"), (Fate::Lost, "lost")] {
                let outcome = outcome(Status::Failure, cause.clone(), state);
                let text = outcome.next_step(Language::English).unwrap();
                assert!(text.contains(english), "{text}");
                assert!(!outcome.next_step(Language::Chinese).unwrap().is_empty());
            }
        }
        assert_eq!(Seconds(1500).to_string(), "1.5");
    }
}
