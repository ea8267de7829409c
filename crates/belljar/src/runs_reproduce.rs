//! `belljar runs reproduce`: runs the code of a run again, and compares.

use std::process::ExitCode;

use belljar_agent::{Replayed, Reproduction, RunsDirectory, Verdict, reproduce};
use belljar_journal::RunId;
use belljar_sandbox::protocol::texts::RunTexts;
use clap::Args;

use crate::run_command::print_line;
use crate::start::{SessionArgs, spinner};
use crate::variable_args::VariableArgs;
use crate::{show, table, words};

#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// Run id, or the beginning of it
    pub(crate) run: String,
    /// Print one JSON object instead
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    variables: VariableArgs,
    #[command(flatten)]
    session: SessionArgs,
}

pub(crate) async fn run(
    args: &ReproduceArgs,
    runs: &RunsDirectory,
    id: &RunId,
) -> anyhow::Result<ExitCode> {
    let texts = &words::texts().run;
    let engine = args.session.engine().await?;
    let options = args.variables.give(args.session.options()?)?;
    let progress = spinner(texts.reproducing);
    let mut replayed = |now: Replayed<'_>| {
        progress.set_message(texts.reproduced_so_far(now.done, now.all));
    };
    let reproduction = reproduce(runs, id, &engine, &options, &mut replayed).await;
    progress.finish_and_clear();
    engine.shutdown().await;
    let reproduction = reproduction?;
    if args.json {
        print_line(&serde_json::to_string(&reproduction)?)?;
    } else {
        print(&reproduction, texts)?;
    }
    Ok(ExitCode::from(u8::from(!reproduction.is_identical())))
}

fn print(reproduction: &Reproduction, texts: &RunTexts) -> std::io::Result<()> {
    let values = reproduction.values.iter().map(|value| {
        let place = match value.cell {
            Some(cell) => texts.in_cell(cell),
            None => texts.in_step(value.step),
        };
        let now = value.now.clone().unwrap_or_default();
        [value.value.clone(), words(value.verdict, texts), place, now]
    });
    let files = reproduction.files.iter().map(|file| {
        let verdict = words(file.verdict, texts);
        [
            file.path.clone(),
            verdict,
            texts.in_file.into(),
            String::new(),
        ]
    });
    if !reproduction.values.is_empty() || !reproduction.files.is_empty() {
        let head = [
            texts.head_value,
            texts.head_verdict,
            texts.head_where,
            texts.head_now,
        ];
        table::print(&head, &[false; 4], values.chain(files))?;
    }
    let values = reproduction.values.iter().map(|value| value.verdict);
    let files = reproduction.files.iter().map(|file| file.verdict);
    let cells = reproduction.cells.iter().map(|cell| cell.verdict);
    let parts: [(Vec<Verdict>, &str); 3] = [
        (values.collect(), texts.reproduced_values),
        (files.collect(), texts.reproduced_files),
        (cells.collect(), texts.reproduced_cells),
    ];
    let parts = parts
        .into_iter()
        .filter(|(verdicts, _)| !verdicts.is_empty());
    let parts = parts.map(|(verdicts, what)| {
        let identical = verdicts
            .iter()
            .filter(|verdict| **verdict == Verdict::Identical);
        texts.reproduced_part(identical.count(), verdicts.len(), what)
    });
    let parts = parts.collect::<Vec<_>>().join(", ");
    show::note(match parts.as_str() {
        "" => texts.reproduced_nothing,
        parts => parts,
    });
    Ok(())
}

fn words(verdict: Verdict, texts: &RunTexts) -> String {
    match verdict {
        Verdict::Identical => texts.verdict_identical,
        Verdict::Changed => texts.verdict_changed,
        Verdict::NotDeterministic => texts.verdict_not_deterministic,
        Verdict::NotRun => texts.verdict_not_run,
    }
    .into()
}
