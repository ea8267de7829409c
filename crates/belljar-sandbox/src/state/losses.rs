//! What a session loses by hibernating, for the first outcome after waking.

use belljar_protocol::{Stream, WokenCheckpoint};

use crate::session::guest::Guest;
use crate::session::handle::SessionHandle;
use crate::state::restore::lacking;
use crate::state::snapshot::{LoadReport, SnapshotReport};

/// The most names and files that the first outcome after waking lists as gone.
const MAX_LOST: usize = 100;

/// What a session loses by hibernating, besides names and files.
pub(super) fn losses(
    handle: &SessionHandle,
    guest: &mut Guest,
    report: &SnapshotReport,
) -> Vec<String> {
    let mut lost = std::mem::take(&mut guest.lost);
    let cell = guest.cells;
    let slept = format!(
        "the session hibernated after cell {cell} and was restarted: only variables and files of the \
         workspace were saved, not /tmp, environment variables and the current directory"
    );
    tell(&mut lost, slept);
    if handle.slot.is_some() {
        let fork =
            "it was a fork: it continues as a session of its own, in the directory /workspace";
        tell(&mut lost, fork.into());
    }
    let (threads, processes) = (report.threads, report.processes);
    let gone = WokenCheckpoint {
        cell,
        threads,
        processes,
    };
    for line in lacking(gone) {
        tell(&mut lost, line);
    }
    let checkpoints: Vec<String> = guest
        .checkpoint_set
        .list()
        .map(|checkpoint| match &checkpoint.name {
            Some(name) => format!("`{name}`"),
            None => format!("cell {}", checkpoint.cell),
        })
        .collect();
    if !checkpoints.is_empty() {
        let checkpoints = checkpoints.join(", ");
        tell(
            &mut lost,
            format!("earlier checkpoints are gone: {checkpoints}"),
        );
    }
    let unread = |stream| guest.read_now(stream, &mut [0]).is_ok_and(|read| read > 0);
    if unread(Stream::Stdout) || unread(Stream::Stderr) {
        let output = "output of threads and child processes after the last cell was lost";
        tell(&mut lost, output.into());
    }
    if handle.output_directory.exists() {
        let outputs = "the files with the full text of long outputs are gone";
        tell(&mut lost, outputs.into());
    }
    lost
}

/// Adds a line, once: a session may hibernate and wake many times between two outcomes.
pub(super) fn tell(lost: &mut Vec<String>, line: String) {
    if !lost.contains(&line) {
        lost.push(line);
    }
}

/// Which names, files and packages did not come back.
pub(super) fn not_there(report: &LoadReport) -> Vec<String> {
    let names = report.names.iter().filter_map(|name| {
        let why = name.why.as_ref()?;
        let of = match &name.namespace {
            Some(namespace) => format!(" of namespace `{namespace}`"),
            None => String::new(),
        };
        Some(format!("the variable `{}`{of} is gone: {why}", name.name))
    });
    let files = report.files_left_out.iter();
    let files = files.map(|file| format!("the file `{}` is gone: {}", file.path, file.why));
    let packages = report.packages.iter();
    let packages = packages.map(|package| format!("the package {package}"));
    let mut lines: Vec<String> = names.chain(files).chain(packages).collect();
    let more = lines.len().saturating_sub(MAX_LOST);
    if more > 0 {
        lines.truncate(MAX_LOST);
        lines.push(format!("{more} more variables and files are gone"));
    }
    lines
}
