//! `belljar runs show --timing`: where the time went.

use std::io::Write as _;

use belljar_agent::{RunEvent, Timing};
use belljar_journal::{Journal, RunId};
use belljar_sandbox::protocol::Language;
use serde_json::Value;

use crate::run_command::print_line;
use crate::run_screen::seconds;
use crate::{settings, show};

/// Maximum number of slowest steps listed.
const SLOWEST: usize = 3;

pub(crate) async fn show(
    journal: &Journal,
    id: &RunId,
    events: &[RunEvent],
    json: bool,
) -> anyhow::Result<()> {
    let timing = Timing::from_events(events)?;
    let last = journal.last_seq(id).await?;
    let first = journal.read(id, 0, 1).await?;
    let last = journal.read(id, last.saturating_sub(1), 1).await?;
    let wall_ms = match (first.first(), last.first()) {
        (Some(first), Some(last)) => {
            u64::try_from((last.at.0 - first.at.0) / 1000).unwrap_or_default()
        }
        _ => 0,
    };
    let busy = timing.spent.model_ms + timing.spent.tool_ms;
    let other_ms = wall_ms.saturating_sub(busy);
    if json {
        let mut object = serde_json::to_value(&timing)?;
        object["run"] = id.as_str().into();
        object["wall_ms"] = wall_ms.into();
        object["other_ms"] = other_ms.into();
        return print_line(&object.to_string());
    }
    table(&timing, wall_ms, other_ms, settings::load()?.language)
}

fn table(timing: &Timing, wall_ms: u64, other_ms: u64, language: Language) -> anyhow::Result<()> {
    let (spent, texts) = (timing.spent, &language.texts().run);
    let mut out = std::io::stdout().lock();
    let share = |part: u64| 100 * part / wall_ms.max(1);
    let parts = [
        (texts.time_all, wall_ms),
        (texts.time_model, spent.model_ms),
        (texts.time_tools, spent.tool_ms),
        (texts.time_other, other_ms),
    ];
    for (name, part) in parts {
        let (time, share) = (seconds(part), share(part).min(100));
        writeln!(out, "{name:6} {time:9.3} s {share:4} %")?;
    }
    let (read, written) = (spent.input_tokens, spent.output_tokens);
    let (steps, calls, back) = (spent.steps, spent.calls, spent.repeats);
    let money = if timing.steps.iter().any(|step| step.cost.is_some()) {
        format!("{:.4}", spent.money)
    } else {
        texts.cost_unknown.to_owned()
    };
    let summary = texts.timing(steps, calls, back, read, written, &money);
    writeln!(out, "{summary}\n\n{}", texts.timing_head)?;
    for row in &timing.steps {
        let cost = row.cost.map_or("-".to_owned(), |cost| format!("{cost:.4}"));
        let failed = match row.failed {
            0 => String::new(),
            failed => texts.failed_calls(failed),
        };
        writeln!(
            out,
            "{:4} {:9.3} {:9.3} {:5} {:8} {cost:>9}  {}{failed}",
            row.step,
            seconds(row.model_ms),
            seconds(row.tool_ms),
            row.input_tokens,
            row.output_tokens,
            show::message(&row.tools.join(", ")),
        )?;
    }
    let slowest = timing.slowest(SLOWEST).into_iter();
    let slowest = slowest.map(|row| {
        let time = seconds(row.model_ms + row.tool_ms);
        format!("{} ({time:.3} s)", row.step)
    });
    let slowest: Vec<String> = slowest.collect();
    writeln!(out, "\n{}", texts.slowest(&slowest.join(", ")))?;
    for call in &timing.repeated {
        let code = call.arguments.get("code").and_then(Value::as_str);
        let about = code.map_or_else(|| call.arguments.to_string(), str::to_owned);
        let about = show::message(about.lines().next().unwrap_or_default());
        let about: String = about.chars().take(60).collect();
        let steps: Vec<String> = call.steps.iter().map(ToString::to_string).collect();
        let (tool, steps, wasted) = (&call.tool, steps.join(", "), seconds(call.wasted_ms));
        let call = format!("{} {about}", show::message(tool));
        writeln!(out, "{}", texts.repeated(&steps, wasted, &call))?;
    }
    Ok(())
}
