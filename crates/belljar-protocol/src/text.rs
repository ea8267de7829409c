//! An outcome as text for a model: its output, its error, what to do next.
//!
//! The program's output is made [`plain`], names that it chose [`visible`]. An outcome as JSON has
//! both unchanged.

use std::fmt::Write as _;

use crate::texts::OutcomeTexts;
use crate::{
    Cause, Fate, Language, Outcome, Remedy, RemedyOption, SetBy, Status, Walls, plain, signal_name,
    visible,
};

impl Outcome {
    /// The outcome as text for a model. `code` is the cell's source, shown with line numbers if the
    /// cell failed.
    pub fn text(&self, code: &str, language: Language) -> String {
        let texts = &language.texts().outcome;
        let headline = match self.status {
            Status::Success => texts.headline_success,
            Status::Failure => texts.headline_failure,
            Status::Timeout => texts.headline_timeout,
            Status::Crashed => texts.headline_crashed,
        };
        let mut out = format!("## {headline}\n### {}\n", texts.output);
        self.write_output(&mut out);
        match self.status {
            Status::Success => {}
            Status::Failure => {
                let _ = writeln!(out, "### {}", texts.source);
                for (number, line) in (1..).zip(code.lines()) {
                    let _ = writeln!(out, "{number:>4} | {}", plain(line));
                }
                if let Some(exception) = &self.exception {
                    let _ = writeln!(out, "### {}", texts.error);
                    out.push_str(&plain(&exception.traceback));
                    end_line(&mut out);
                }
            }
            Status::Timeout => {
                if let Cause::WallTime { limit_ms } | Cause::CpuTime { limit_ms } = self.cause {
                    let _ = writeln!(out, "### {}", texts.time_limit(&Seconds(limit_ms)));
                }
            }
            Status::Crashed => {
                let _ = writeln!(out, "### {}", texts.exit_code(self.exit_code));
            }
        }
        self.write_rest(language, &mut out);
        if let Some(next) = self.next_step(language) {
            let _ = writeln!(out, "### {}", texts.next);
            let _ = writeln!(out, "{next}");
        }
        out
    }

    /// The outcome for a model that sees the cell anyway: without its source, and without a
    /// headline of success. It ends with what to do, since that is what small models follow.
    pub fn brief(&self, language: Language) -> String {
        let texts = &language.texts().outcome;
        let mut out = String::new();
        self.write_output(&mut out);
        if let Some(exception) = &self.exception {
            out.push_str(&plain(&exception.traceback));
            end_line(&mut out);
        } else if out.is_empty() {
            out.push_str(texts.no_output);
        }
        self.write_rest(language, &mut out);
        let brief = match self.cause {
            Cause::Exception | Cause::Syntax => Some(texts.failed.to_owned()),
            Cause::WallTime { limit_ms } | Cause::CpuTime { limit_ms } => {
                Some(texts.stopped(&Seconds(limit_ms)))
            }
            _ => None,
        };
        let next = match brief {
            Some(text) if self.state != Fate::Kept => Some(text + &self.fate(texts)),
            Some(text) => Some(text),
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

    /// Packages, files, notes, missing walls.
    fn write_rest(&self, language: Language, out: &mut String) {
        let texts = &language.texts().outcome;
        if !self.installed.is_empty() {
            let packages = visible(&self.installed.join(", ")).into_owned();
            let _ = writeln!(out, "{}", language.texts().session.installed(&packages));
        }
        if !self.artifacts.is_empty() {
            let _ = writeln!(out, "### {}", texts.files);
            for artifact in &self.artifacts {
                let path = visible(&artifact.path);
                let _ = writeln!(out, "/workspace/{path} ({} B)", artifact.size);
            }
        }
        if !self.notes.is_empty() {
            let _ = writeln!(out, "### {}", texts.left_out);
            for note in &self.notes {
                let _ = writeln!(out, "- {}", visible(note));
            }
        }
        if self.walls == Walls::None {
            let _ = writeln!(out, "### {}", texts.no_walls);
        }
    }

    /// One sentence: why the cell did not succeed, what became of the variables, and what to do
    /// next; none if there is nothing to do.
    pub fn next_step(&self, language: Language) -> Option<String> {
        if self.status == Status::Success {
            return None;
        }
        let texts = &language.texts().outcome;
        let why = match &self.cause {
            Cause::Exception if let Some(package) = &self.package => {
                texts.missing_package(&visible(package))
            }
            Cause::Exception if let Some(remedy) = &self.remedy => remedy.text(language),
            Cause::Completed | Cause::Exception => texts.exception.to_owned(),
            Cause::Syntax => texts.syntax.to_owned(),
            Cause::Exit { code } if self.status == Status::Failure => texts.sys_exit(*code),
            Cause::Exit { code } => match i32::try_from(*code) {
                // By convention, the end by a signal.
                Ok(status @ 129..=159) => texts.exited_by_signal(*code, &signal_name(status - 128)),
                _ => texts.exited(*code),
            },
            Cause::Interrupted => texts.interrupted.to_owned(),
            Cause::WallTime { limit_ms } => texts.wall_time(&Seconds(*limit_ms)),
            Cause::CpuTime { limit_ms } => texts.cpu_time(&Seconds(*limit_ms)),
            Cause::Memory { limit_bytes } => texts.memory(limit_bytes >> 20),
            Cause::Signal { name, .. } => texts.signal(name, meaning(name, texts)),
            Cause::OutputLimit { limit_bytes } => texts.output_limit(limit_bytes >> 20),
            Cause::Protocol { detail } => texts.protocol(&visible(detail)),
        };
        Some(why + &self.fate(texts))
    }

    /// What became of the variables.
    fn fate(&self, texts: &OutcomeTexts) -> String {
        match self.state {
            Fate::Kept => texts.variables_kept.to_owned(),
            Fate::Restored { cell: 0 } => texts.variables_before_first_cell.to_owned(),
            Fate::Restored { cell } => texts.variables_after_cell(cell),
            Fate::Lost => texts.variables_lost.to_owned(),
        }
    }
}

fn meaning(signal: &str, texts: &OutcomeTexts) -> &'static str {
    match signal {
        "SIGSEGV" | "SIGBUS" => texts.invalid_memory_access,
        "SIGABRT" => texts.abort,
        "SIGFPE" => texts.arithmetic_fault,
        "SIGILL" => texts.illegal_instruction,
        "SIGKILL" => texts.killed,
        "SIGSYS" => texts.forbidden_system_call,
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

impl Remedy {
    fn text(&self, language: Language) -> String {
        let texts = &language.texts().session;
        let value = self.value.as_deref().map(visible);
        let value = value.as_deref();
        match (self.option, self.set_by) {
            (RemedyOption::Packages, set_by) => {
                let package = value.unwrap_or("NAME");
                match set_by {
                    SetBy::Library => texts.package_by_library(package),
                    SetBy::Command => texts.package_by_command(package),
                    SetBy::Service => texts.package_by_service(package),
                }
            }
            (RemedyOption::Network, set_by) => {
                let host = value.unwrap_or("HOST");
                match set_by {
                    SetBy::Library => texts.network_by_library(host),
                    SetBy::Command => texts.network_by_command(host),
                    SetBy::Service => texts.network_by_service(host),
                }
            }
        }
    }
}

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
            remedy: None,
            installed: vec![],
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
            name: "ZeroDivisionError".into(),
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
            name: EVIL.into(),
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
            ..Display::default()
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

    #[test]
    fn a_remedy_names_the_option_of_its_way_in() {
        let failed = |option, set_by, value: &str| Outcome {
            remedy: Some(Remedy {
                option,
                set_by,
                value: (!value.is_empty()).then(|| value.to_owned()),
            }),
            ..outcome(Status::Failure, Cause::Exception, Fate::Kept)
        };
        let (packages, network) = (RemedyOption::Packages, RemedyOption::Network);
        for (outcome, named) in [
            (
                failed(packages, SetBy::Command, "pyyaml"),
                "`--packages pyyaml`",
            ),
            (
                failed(packages, SetBy::Service, "pyyaml"),
                "`belljar serve --packages pyyaml`",
            ),
            (
                failed(packages, SetBy::Library, "pyyaml"),
                "`SessionOptions::packages`",
            ),
            (failed(network, SetBy::Command, ""), "`--allow HOST`"),
            (
                failed(network, SetBy::Service, "pypi.org"),
                "`network.allow`",
            ),
            (
                failed(network, SetBy::Service, "pypi.org"),
                "`belljar serve --allow pypi.org`",
            ),
            (
                failed(network, SetBy::Library, ""),
                "`SessionOptions::network`",
            ),
        ] {
            for language in Language::ALL {
                let next = outcome.next_step(*language).unwrap();
                assert!(next.contains(named), "{next}");
                assert!(outcome.text("1", *language).contains(named));
            }
        }
    }

    #[test]
    fn installed_packages_are_listed() {
        let outcome = Outcome {
            installed: vec!["alpha 1.0".into(), "beta 2.0".into()],
            ..outcome(Status::Success, Cause::Completed, Fate::Kept)
        };
        let text = outcome.text("1", Language::English);
        assert!(text.contains("[installed alpha 1.0, beta 2.0]"), "{text}");
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
