//! Errors of the library in the language of the command. Those without a text of their own stay English.

use std::error::Error as StdError;

use belljar_sandbox::{EnvironmentError, Error};

use crate::words;

/// An error with its causes: what happened, why, what to do.
pub(crate) fn full(error: &anyhow::Error) -> String {
    let mut text = of_cause(error.as_ref());
    for cause in error.chain().skip(1) {
        // Many messages tell their cause themselves, in English or in words of ours.
        let words = of_cause(cause);
        if !text.contains(&cause.to_string()) && !text.contains(&words) {
            text = format!("{text}: {words}");
        }
    }
    text
}

/// One error, without its causes.
pub(crate) fn of_cause(error: &(dyn StdError + 'static)) -> String {
    let known = error.downcast_ref().and_then(of_session);
    let known = known.or_else(|| error.downcast_ref().and_then(of_environment));
    known.unwrap_or_else(|| error.to_string())
}

fn of_session(error: &Error) -> Option<String> {
    let texts = &words::texts().errors;
    Some(match error {
        Error::Cgroup(why) => texts.limits(why),
        Error::Walls(why) => texts.walls(why),
        Error::Template { environment, why } => texts.template(environment, why),
        Error::Session(why) => texts.session(why),
        Error::Ended(why) => texts.ended(why),
        Error::Busy => texts.busy.to_owned(),
        Error::NoCheckpoint(checkpoint) => texts.no_checkpoint(checkpoint),
        Error::TooManyCheckpoints { limit } => texts.too_many_checkpoints(*limit),
        Error::NotCheckpointed(why) => texts.not_checkpointed(why),
        Error::Fork(why) => texts.fork(why),
        Error::Command(why) => texts.command(why),
        Error::Unresponsive => texts.unresponsive.to_owned(),
        Error::CellTooLarge { bytes, limit } => texts.cell_too_large(*bytes, *limit),
        Error::FileTooLarge { path, bytes, limit } => texts.file_too_large(path, *bytes, *limit),
        _ => return None,
    })
}

fn of_environment(error: &EnvironmentError) -> Option<String> {
    use EnvironmentError as E;

    let texts = &words::texts().errors;
    Some(match error {
        E::InvalidName { name } => texts.environment_name(name),
        E::IsImage { name } => texts.environment_is_image(name),
        E::AlreadyExists { name } => texts.environment_exists(name),
        E::NotFound { name, known } => texts.environment_not_found(name, known),
        E::Broken { name, reason } => texts.environment_broken(name, reason),
        E::UvMissing { reason } => texts.uv_missing(reason),
        E::Uv {
            step,
            status,
            output,
        } => texts.uv_failed(step, status, output),
        E::NoPython => texts.no_python.to_owned(),
        E::PythonMissing { path, reason } => texts.python_missing(&path.display(), reason),
        E::Unsupported { path, found } => texts.python_unsupported(&path.display(), found),
        E::InvalidPackage { package, reason } => texts.package_invalid(package, reason),
        E::InvalidModule { module } => texts.module_invalid(module),
        E::Preload { output } => texts.preload(output),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The library has English texts of its own, which the catalogue repeats.
    #[test]
    fn english_is_that_of_the_library() {
        let x = || "x".to_owned();
        let sessions = [
            Error::Template {
                environment: x(),
                why: x(),
            },
            Error::Ended(x()),
            Error::Busy,
            Error::TooManyCheckpoints { limit: 3 },
            Error::NotCheckpointed(x()),
            Error::Fork(x()),
            Error::Command(x()),
            Error::Unresponsive,
            Error::CellTooLarge { bytes: 2, limit: 1 },
            Error::FileTooLarge {
                path: x(),
                bytes: 2,
                limit: 1,
            },
        ];
        for error in sessions {
            assert_eq!(of_session(&error), Some(error.to_string()));
        }
        let environments = [
            EnvironmentError::InvalidName { name: x() },
            EnvironmentError::AlreadyExists { name: x() },
            EnvironmentError::IsImage { name: x() },
            EnvironmentError::NotFound {
                name: x(),
                known: x(),
            },
            EnvironmentError::Broken {
                name: x(),
                reason: x(),
            },
            EnvironmentError::UvMissing { reason: x() },
            EnvironmentError::Uv {
                step: "x",
                status: x(),
                output: x(),
            },
            EnvironmentError::NoPython,
            EnvironmentError::PythonMissing {
                path: "x".into(),
                reason: x(),
            },
            EnvironmentError::Unsupported {
                path: "x".into(),
                found: x(),
            },
            EnvironmentError::InvalidPackage {
                package: x(),
                reason: "x",
            },
            EnvironmentError::InvalidModule { module: x() },
            EnvironmentError::Preload { output: x() },
        ];
        for error in environments {
            assert_eq!(of_environment(&error), Some(error.to_string()));
        }
    }
}
