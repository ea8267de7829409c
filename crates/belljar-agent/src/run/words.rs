//! What the host says to the model beside the results of its calls.

use std::fmt::Write as _;

use belljar_protocol::{Language, NameInfo, ToolStub};

use super::event::{CallResult, Start};
use super::gate::Undefined;
use super::machine::{Run, Step};
use super::tools_text::tools_text;
use crate::dialect::PYTHON;

/// The first message: what the model is to be, and how it acts.
pub(crate) fn system(start: &Start) -> String {
    let mut text = String::from(match start.language {
        Language::English => {
            "You solve tasks by running Python in a session, step by step: run code, look at its \
             output, go on, and give the answer once an output shows it.\n\
             - Let Python do every calculation, every count and every change of characters, however \
             small. Never do it in your head.\n\
             - Copy texts and numbers of the task into the code exactly as they stand there.\n\
             - Print the values that matter. An answer rests on output that you have seen.\n\
             - Begin with one line that says what is asked for: one value or many, of what, in which \
             unit. Then the code, no explanations after it.\n\
             - When code fails, read the error, find the cause, and change the code.\n\
             - The answer says what was asked for, with the exact values of the output.\n"
        }
        Language::Chinese => {
            "你通过在会话中运行 Python 来完成任务，逐步进行：运行代码，查看输出，继续，直到输出显示出答案后给出答案。\n\
             - 所有计算、计数和字符处理都交给 Python，再小也不要心算。\n\
             - 把任务中的文本和数字原样复制到代码中。\n\
             - 打印重要的值。答案必须以你看到的输出为依据。\n\
             - 先用一行说明所要求的内容：一个值还是多个值，是什么，用什么单位。然后写代码，代码后不要解释。\n\
             - 代码出错时，阅读错误，找到原因，修改代码。\n\
             - 答案给出所要求的内容，使用输出中的确切值。\n"
        }
    });
    if !start.packages.is_empty() {
        let packages = start.packages.join(", ");
        let _ = match start.language {
            Language::English => writeln!(text, "- Installed: {packages}."),
            Language::Chinese => writeln!(text, "- 已安装：{packages}。"),
        };
    }
    let granted: Vec<ToolStub> = start.granted.iter().map(|tool| tool.stub.clone()).collect();
    text.push_str(&tools_text(&granted, start.language));
    if let Some(branches) = &start.branches {
        text.push_str(&branches.text(start.language));
    }
    text.push('\n');
    text.push_str(
        &start
            .dialect
            .instructions(&start.tool_specs(), start.language),
    );
    text
}

/// A task, the first line of a good reply to it, its code, and what that prints.
pub(crate) fn example(language: Language) -> [&'static str; 4] {
    let code = "weeks = 3\nprint(weeks * 7 * 24 * 60 * 60)";
    match language {
        Language::English => [
            "Task: How many seconds are there in three weeks?",
            "Asked for: one number, the count of seconds.",
            code,
            "1814400",
        ],
        Language::Chinese => [
            "任务：三周有多少秒？",
            "要求：一个数，秒数。",
            code,
            "1814400",
        ],
    }
}

/// The task, and the files that come with it.
pub(crate) fn task(start: &Start) -> String {
    let mut text = match start.language {
        Language::English => format!("Task: {}", start.task),
        Language::Chinese => format!("任务：{}", start.task),
    };
    if !start.files.is_empty() {
        text.push_str(match start.language {
            Language::English => "\n\nFiles in the working directory:",
            Language::Chinese => "\n\n工作目录中的文件：",
        });
        for file in &start.files {
            let _ = write!(text, "\n- {} ({} bytes)", file.name, file.bytes);
            if !file.head.is_empty() {
                text.push_str(match start.language {
                    Language::English => ", which begins:\n",
                    Language::Chinese => "，开头为：\n",
                });
                text.push_str(file.head.trim_end());
            }
        }
    }
    if let Some(parent) = &start.parent {
        text.push_str("\n\n");
        text.push_str(&parent.told);
    }
    text
}

/// The summary of an earlier run for the run that continues it.
pub(crate) fn parent(run: &Run, answer: Option<&str>, language: Language) -> String {
    let task = run.start().map_or("", |start| start.task.as_str());
    let plan = run.plan().tree.as_ref();
    let plan = plan.map(|tree| tree.checklist(language));
    let steps = memory(run.steps(), plan, run.manifest(), language);
    let mut text = match language {
        Language::English => format!(
            "You go on from an earlier run, in its session: its variables and files are there.\nIts task was: {task}\n{steps}"
        ),
        Language::Chinese => format!(
            "你从较早的任务继续，使用它的会话：其变量和文件都在。\n它的任务是：{task}\n{steps}"
        ),
    };
    if let Some(answer) = answer {
        let _ = match language {
            Language::English => write!(text, "\nIts answer was: {answer}"),
            Language::Chinese => write!(text, "\n它的答案是：{answer}"),
        };
    }
    text
}

/// What stands before the result of a call, in dialects where it is a message of the user.
pub(crate) fn observation(tool: &str, cell: Option<u32>, language: Language) -> String {
    match (tool, cell, language) {
        (PYTHON, Some(cell), Language::English) => format!("Output of cell {cell}:\n"),
        (PYTHON, Some(cell), Language::Chinese) => format!("第 {cell} 个单元的输出：\n"),
        (tool, _, Language::English) => format!("Result of {tool}:\n"),
        (tool, _, Language::Chinese) => format!("{tool} 的结果：\n"),
    }
}

pub(crate) fn not_run(missing: &[Undefined], language: Language) -> String {
    let list = |word: &str| {
        let names = missing.iter().take(5);
        let names = names.map(|(name, line)| format!("`{name}` ({word} {line})"));
        names.collect::<Vec<_>>().join(", ")
    };
    match language {
        Language::English => format!(
            "The code was not run: nothing defines {}. Run the whole of it again with what is missing.",
            list("line")
        ),
        Language::Chinese => format!(
            "代码未运行：{} 没有定义。请补上缺少的内容后重新运行全部代码。",
            list("行")
        ),
    }
}

pub(crate) fn answer_without_code(language: Language) -> String {
    match language {
        Language::English => "The answer was not taken, because nothing was run yet. Check it first: run code that works it out and prints it.".into(),
        Language::Chinese => "答案未被采纳，因为还没有运行任何代码。请先验证：运行代码计算并打印结果。".into(),
    }
}

pub(crate) fn answer_after_failure(language: Language) -> String {
    match language {
        Language::English => "The answer was not taken, because the last code failed and no output shows it. Correct the code, run it, and answer with what it prints.".into(),
        Language::Chinese => "答案未被采纳，因为最后一段代码失败了，没有输出显示该答案。请修正代码并运行，然后按其输出回答。".into(),
    }
}

pub(crate) fn review(task: &str, language: Language) -> String {
    match language {
        Language::English => format!(
            "Now check it: run other code that works the same out in another way, with plain loops, and prints it. The task was: {task}"
        ),
        Language::Chinese => format!(
            "现在检查答案：运行另一段代码，用另一种方法（普通循环）计算同样的内容并打印。任务是：{task}"
        ),
    }
}

pub(crate) fn no_such_file(file: &str, language: Language) -> String {
    match language {
        Language::English => format!(
            "The answer was not taken yet: the task names `{file}`, and no such file was made. Run the code that makes it; if it is not to be made, repeat the answer."
        ),
        Language::Chinese => format!(
            "答案尚未被采纳：任务提到了 `{file}`，但没有生成该文件。请运行生成它的代码；如果不需要生成，请重复答案。"
        ),
    }
}

pub(crate) fn answer_unseen(values: &[&str], task: &str, language: Language) -> String {
    let values: Vec<String> = values
        .iter()
        .take(5)
        .map(|value| format!("`{value}`"))
        .collect();
    let values = values.join(", ");
    match language {
        Language::English => format!(
            "The answer was not taken: {values} stands in it, but in no output. Run other code that works it out, with plain loops, and prints it. The task was: {task}"
        ),
        Language::Chinese => format!(
            "答案未被采纳：其中的 {values} 没有出现在任何输出中。请运行另一段代码，用普通循环计算并打印。任务是：{task}"
        ),
    }
}

pub(crate) fn done_before(step: u32, failed: bool, language: Language) -> String {
    match (failed, language) {
        (false, Language::English) => format!(
            "You did exactly this in step {step} already, and it gave the same. If it shows what was asked for, give the answer now; else do something else."
        ),
        (true, Language::English) => format!(
            "You did exactly this in step {step} already, and it failed in the same way. Do something else."
        ),
        (false, Language::Chinese) => format!(
            "第 {step} 步已经做过完全相同的事，结果也相同。如果结果就是所要求的内容，请现在给出答案；否则请换一种做法。"
        ),
        (true, Language::Chinese) => {
            format!("第 {step} 步已经做过完全相同的事，并以同样的方式失败。请换一种做法。")
        }
    }
}

pub(crate) fn keeps_failing(steps: usize, planned: bool, language: Language) -> String {
    let skip = match (planned, language) {
        (false, _) => "",
        (true, Language::English) => " Mark what can't be done as skipped in the plan.",
        (true, Language::Chinese) => "无法完成的任务请在计划中标记为 skipped。",
    };
    match language {
        Language::English => format!(
            "The last {steps} steps failed. Don't try the same way again: look at the errors, find what they have in common, and go another way.{skip}"
        ),
        Language::Chinese => format!(
            "最近 {steps} 步都失败了。不要再用同样的做法：查看这些错误，找出共同的原因，换一个方向。{skip}"
        ),
    }
}

pub(crate) fn repetition(repeated: &str, restored: bool, language: Language) -> String {
    let variables = variables_after(restored, language);
    match language {
        Language::English => format!(
            "You did the same several times with the same result, so the conversation was taken back to before it. {variables} What you repeated: {repeated}\nDo it in another way, or answer with what you have."
        ),
        Language::Chinese => format!(
            "你多次做了同样的事，结果相同，因此对话已回退到那之前。{variables}你重复的内容：{repeated}\n请换一种做法，或用已有的内容回答。"
        ),
    }
}

/// What is said of code that failed twice in the same way; the code itself would only be copied.
pub(crate) fn failed_again(result: &CallResult, restored: bool, language: Language) -> String {
    let variables = variables_after(restored, language);
    let error = result.cell.as_ref().and_then(|cell| cell.error.as_deref());
    let error = error.or_else(|| result.text.trim_end().lines().next_back());
    let error = error.unwrap_or_default();
    let error = &error[..error.floor_char_boundary(SUMMARY)];
    match language {
        Language::English => format!(
            "Earlier code failed twice with `{error}` and was taken back. {variables} Use plain loops and the standard library only."
        ),
        Language::Chinese => format!(
            "之前的代码两次以 `{error}` 失败，已被撤回。{variables}请只使用普通循环和标准库。"
        ),
    }
}

/// What is said of code that was run twice and showed no good answer.
pub(crate) fn showed_nothing(restored: bool, language: Language) -> String {
    let variables = variables_after(restored, language);
    match language {
        Language::English => format!(
            "Earlier code was run twice, did not show what was asked for, and was taken back. {variables} Use plain loops and the standard library only."
        ),
        Language::Chinese => format!(
            "之前的代码运行了两次，没有显示所要求的内容，已被撤回。{variables}请只使用普通循环和标准库。"
        ),
    }
}

fn variables_after(restored: bool, language: Language) -> &'static str {
    match (restored, language) {
        (true, Language::English) => "The variables are as they were then.",
        (false, Language::English) => "The variables are as they are now.",
        (true, Language::Chinese) => "变量已恢复到当时的状态。",
        (false, Language::Chinese) => "变量保持当前状态。",
    }
}

/// The most bytes of an action, and of its result, in a summary.
const SUMMARY: usize = 150;

/// What a step did, in one line.
pub(crate) fn summary(step: &Step) -> String {
    let mut line = String::new();
    for call in &step.calls {
        if !line.is_empty() {
            line.push_str("; ");
        }
        let done = match call.code() {
            Some(code) => code
                .lines()
                .map(str::trim)
                .filter(|l| {
                    !l.is_empty()
                        && !l.starts_with('#')
                        && !l.starts_with("import ")
                        && !l.starts_with("from ")
                })
                .collect::<Vec<_>>()
                .join("; "),
            None => call.arguments.to_string(),
        };
        let mut done = format!("{} {done}", call.tool);
        done.truncate(done.floor_char_boundary(SUMMARY));
        let result = call.result().map_or("", |result| {
            let text = result.cell.as_ref().map_or(&result.text, |cell| {
                if cell.output.trim().is_empty() {
                    &result.text
                } else {
                    &cell.output
                }
            });
            text.trim()
        });
        let mut result: String = result
            .lines()
            .map(str::trim)
            .collect::<Vec<_>>()
            .join(" | ");
        result.truncate(result.floor_char_boundary(SUMMARY));
        let _ = write!(line, "{done} -> {result}");
    }
    if line.is_empty() {
        let first = step.reply.text.trim().lines().next();
        line.push_str(first.unwrap_or_default());
        line.truncate(line.floor_char_boundary(SUMMARY));
    }
    line
}

/// What is left of steps that are no longer in the conversation, with the plan and the variables.
pub(crate) fn memory(
    steps: &[Step],
    plan: Option<String>,
    manifest: &[NameInfo],
    language: Language,
) -> String {
    const LINES: usize = 15;
    let english = language == Language::English;
    let mut text = String::from(if english {
        "Earlier steps, shortened:"
    } else {
        "较早的步骤（已缩短）："
    });
    let hidden = steps.len().saturating_sub(LINES);
    if hidden > 0 {
        let _ = if english {
            write!(text, "\n({hidden} steps before these)")
        } else {
            write!(text, "\n（之前还有 {hidden} 步）")
        };
    }
    for step in &steps[hidden..] {
        let _ = write!(text, "\n{}. {}", step.number, summary(step));
    }
    if let Some(plan) = plan {
        text.push_str(if english {
            "\n\nYour plan:\n"
        } else {
            "\n\n你的计划：\n"
        });
        text.push_str(plan.trim_end());
    }
    if !manifest.is_empty() {
        text.push_str(if english {
            "\n\nVariables in the session: "
        } else {
            "\n\n会话中的变量："
        });
        text.push_str(&names(manifest));
    }
    text
}

/// The names of a namespace, by type.
pub(crate) fn names(manifest: &[NameInfo]) -> String {
    let mut types: Vec<(&str, Vec<String>)> = Vec::new();
    for name in manifest {
        let mut shown = name.name.clone();
        if let Some(shape) = &name.shape {
            let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
            let _ = write!(shown, " {}", shape.join("×"));
        } else if let Some(length) = name.length {
            let _ = write!(shown, "[{length}]");
        }
        match types.iter_mut().find(|(kind, _)| *kind == name.type_name) {
            Some((_, names)) => names.push(shown),
            None => types.push((&name.type_name, vec![shown])),
        }
    }
    let types: Vec<String> = types
        .iter()
        .map(|(kind, names)| format!("{kind}: {}", names.join(", ")))
        .collect();
    types.join("; ")
}
