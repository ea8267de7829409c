//! Tries the alternatives of a call of `tools.branch`, each in a fork of the session that waits in the
//! call.

use std::sync::Arc;

use belljar_protocol::{Cause, Event, Language, Outcome, Status, ToolError};
use belljar_sandbox::{Cell, CellRun, Error, SecretGrant, Session};
use futures_util::StreamExt as _;
use serde_json::{Map, Value};

use crate::run::{BRANCH, Branch, Branches, branch_failed, check_failed, none_accepted};
use crate::tool::Given;

/// The most that are tried at once.
const AT_ONCE: usize = 2;

/// The first alternative that is accepted, and the results of those that were tried.
pub(super) async fn try_branches(
    session: Arc<Session>,
    branches: Branches,
    arguments: Map<String, Value>,
    language: Language,
) -> (Result<Given, ToolError>, Vec<Branch>) {
    let mut tried = Vec::new();
    let alternatives = match branches.alternatives(&arguments, language) {
        Ok(alternatives) => alternatives,
        Err(words) => return (Err(ToolError(words)), tried),
    };
    let fork = Fork {
        parent: &session,
        branches: &branches,
        language,
    };
    // In order; what is not needed any more is dropped, and its fork with it.
    let values = alternatives.to_vec();
    let ends = futures_util::stream::iter(values).map(|value| fork.try_one(value));
    let mut ends = std::pin::pin!(ends.buffered(AT_ONCE));
    for alternative in alternatives {
        let why = match ends.next().await {
            Some(Ok(why)) => why,
            Some(Err(error)) => {
                let words = language.prompts().not_forked(&error.to_string(), BRANCH);
                return (Err(ToolError(words)), tried);
            }
            None => break,
        };
        tried.push(Branch::new(alternative, why.as_deref()));
        if why.is_none() {
            return (Ok(Given::Value(alternative.clone())), tried);
        }
    }
    let words = none_accepted(&tried, language);
    (Err(ToolError(words)), tried)
}

struct Fork<'a> {
    parent: &'a Session,
    branches: &'a Branches,
    language: Language,
}

impl Fork<'_> {
    /// Why an alternative is not accepted; nothing if it is. An error: it could not be tried.
    async fn try_one(&self, alternative: Value) -> Result<Option<String>, Error> {
        let mut forks = self.parent.fork_with(1, SecretGrant::All).await?;
        let Some(fork) = forks.pop() else {
            return Err(Error::Fork("there is none".into()));
        };
        let rest = fork.resume(Ok(alternative.into()));
        let outcome = match self.end(&fork, rest).await {
            Ok(outcome) => outcome,
            Err(error) => return Ok(Some(error.to_string())),
        };
        if outcome.status != Status::Success {
            return Ok(Some(branch_failed(&outcome, self.language)));
        }
        let check = fork.run(Cell {
            answers: true,
            ..Cell::from(self.branches.check_cell())
        });
        Ok(match self.end(&fork, check).await {
            Ok(outcome) if is_accepted(&outcome) => None,
            Ok(outcome) => Some(check_failed(&outcome, self.language)),
            Err(error) => Some(error.to_string()),
        })
    }

    /// The outcome of a cell in a fork, which calls no tools.
    async fn end(&self, fork: &Session, mut cell: CellRun) -> Result<Outcome, Error> {
        while let Some(event) = cell.next().await {
            match event? {
                Event::Outcome(outcome) => return Ok(*outcome),
                Event::Called { call, .. } => {
                    let words = self.language.prompts().no_calls_in_branch.to_owned();
                    // An error: the code no longer waits for it.
                    let _ = fork.answer(call, Err(ToolError(words))).await;
                }
                _ => {}
            }
        }
        Err(Error::Ended("its cell had no outcome".into()))
    }
}

/// An exit of whatever code is no end of the check.
fn is_accepted(outcome: &Outcome) -> bool {
    outcome.status == Status::Success && outcome.cause == Cause::Completed
}
