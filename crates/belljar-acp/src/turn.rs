//! One prompt: a run from its start to its end, while a person watches and decides.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use agent_client_protocol_schema::v1::{
    ContentBlock, Error, PromptRequest, PromptResponse, StopReason,
};
use belljar_agent::{
    Agent, Approvals, BudgetPart, Dialect, ExitReason, LiveRun, Progress, Run, RunClient, RunError,
    RunEvent, Start, TaskFile,
};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::client_files::ClientFiles;
use crate::connection::{Connection, invalid};
use crate::conversation::Conversation;
use crate::peer::PeerError;
use crate::permission::decide;
use crate::prompt::{self, Prompt};
use crate::results::{MAX_DIFF, offer_changes};
use crate::updates::Updates;
use crate::words::{message, text};

/// How often what has happened goes to the client.
const TICK: Duration = Duration::from_millis(100);

/// A prompt that is to be answered. The session is busy as long as this lives.
pub(crate) struct Turn {
    connection: Arc<Connection>,
    session: Arc<Conversation>,
    stop: CancellationToken,
    prompt: Vec<ContentBlock>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.session.end();
    }
}

impl Turn {
    /// Begins to answer a prompt. From now on it can be cancelled.
    pub(crate) fn begin(
        connection: &Arc<Connection>,
        request: PromptRequest,
    ) -> Result<Self, Error> {
        let session = connection.session(&request.session_id.0)?;
        let stop = session.begin();
        let stop = stop.ok_or_else(|| {
            invalid("the session answers a prompt: wait for its end, or send `session/cancel`")
        })?;
        Ok(Self {
            connection: Arc::clone(connection),
            session,
            stop,
            prompt: request.prompt,
        })
    }

    /// Answers it.
    pub(crate) async fn answer(mut self) -> Result<PromptResponse, Error> {
        let prompt = std::mem::take(&mut self.prompt);
        let read = tokio::select! {
            read = self.read(prompt) => read?,
            () = self.stop.cancelled() => return Ok(PromptResponse::new(StopReason::Cancelled)),
        };
        let permit = Arc::clone(&self.connection.runs).try_acquire_owned();
        let prompt = match (read, permit) {
            (Ok(prompt), Ok(permit)) => Ok((prompt, permit)),
            (Err(why), _) => Err(why),
            (Ok(_), Err(_)) => {
                Err("Too many prompts are being answered: wait for one of them.".to_owned())
            }
        };
        let (prompt, _permit) = match prompt {
            Ok(prompt) => prompt,
            Err(why) => {
                // Nothing began, so that the next prompt knows nothing of this one.
                let _ = self.say(&why).await;
                return Ok(PromptResponse::new(StopReason::Refusal));
            }
        };
        let live = match self.start(prompt).await {
            Ok(live) => live,
            Err(error) => return Err(run_error(&error)),
        };
        let (run, artifacts) = (live.id().clone(), live.artifacts());
        let ended = self.drive(live).await.map_err(|error| run_error(&error))?;
        let Some(end) = ended.ending() else {
            return Ok(PromptResponse::new(StopReason::Cancelled));
        };
        if end.reason != ExitReason::Stopped {
            let files = self.files()?;
            let mut given = self.session.state().given.clone();
            let offered = offer_changes(&run, end, &artifacts, &mut given, &files);
            tokio::select! {
                offered = offered => drop(offered),
                () = self.stop.cancelled() => {}
            }
            self.session.state().given = given;
        }
        Ok(PromptResponse::new(stop_reason(&end.reason)))
    }

    fn files(&self) -> Result<ClientFiles<'_>, Error> {
        Ok(ClientFiles {
            peer: &self.connection.peer,
            session: self.session.id().as_str(),
            directory: &self.session.directory,
            can: &self.connection.client()?.capabilities.fs,
        })
    }

    async fn read(&self, blocks: Vec<ContentBlock>) -> Result<Result<Prompt, String>, Error> {
        Ok(prompt::read(blocks, &self.files()?).await)
    }

    async fn say(&self, words: &str) -> Result<(), PeerError> {
        let session = self.session.id().as_str();
        self.connection
            .peer
            .update(session, message(text(words)))
            .await
    }

    /// Starts the run of the prompt: the first of its session, or one that continues the last.
    async fn start(&self, prompt: Prompt) -> Result<LiveRun, RunError> {
        let state = self.session.state().clone();
        let model = &self.connection.offer.models[state.model];
        let tools = [&self.connection.offer.tools[..], &self.session.tools[..]].concat();
        let agent = model.agent.clone().tools(tools);
        let mut files = Vec::new();
        let mut given = state.given;
        for file in prompt.files {
            let contents = String::from_utf8(file.contents.clone()).ok();
            let contents = contents.filter(|text| file.is_of_directory && text.len() <= MAX_DIFF);
            match contents {
                Some(text) => given.insert(file.name.clone(), text),
                None => given.remove(&file.name),
            };
            files.push(agent.file(&file.name, file.contents).await?);
        }
        // Those of earlier prompts, unless there is a new one of the same name.
        let old = state.last.iter().flat_map(|(_, files)| files);
        let is_old = |old: &&TaskFile| files.iter().all(|new| new.name != old.name);
        let old: Vec<TaskFile> = old.filter(is_old).cloned().collect();
        files.extend(old);
        let name = self.connection.client();
        let name = name.map(|client| client.name.clone()).unwrap_or_default();
        let start = Start {
            task: prompt.task,
            files: files.clone(),
            approvals: Approvals {
                policy: state.policy,
                ..model.start.approvals.clone()
            },
            client: Some(RunClient {
                name,
                directory: self.session.directory.path().to_string_lossy().into(),
            }),
            ..model.start.clone()
        };
        let live = match state.last {
            None => agent.start_as(self.session.id().clone(), start).await?,
            Some((parent, _)) => {
                let id = Agent::new_run_id();
                agent.start_from(id, start, &parent, None).await?
            }
        };
        self.session.state().given = given;
        self.session
            .started(live.id().clone(), files, live.control());
        Ok(live)
    }

    /// Drives a run to its end. The client hears what happens, and passes on what a person decides.
    async fn drive(&self, live: LiveRun) -> Result<Run, RunError> {
        let (run, control) = (live.id().clone(), live.control());
        let start = live.run().start();
        let dialect = start.map_or(Dialect::FencedCode, |start| start.dialect);
        let language = start.map(|start| start.language).unwrap_or_default();
        let updates = Updates::new(run.clone(), live.artifacts(), dialect, language);
        let updates = Arc::new(Mutex::new(updates));
        let (asked, mut approvals) = mpsc::unbounded_channel();
        let heard = Arc::clone(&updates);
        let (stop, stopped) = (self.stop.clone(), control.clone());
        // On its own: a client that does not read must not hold up the stop of a run.
        let mut driving = tokio::spawn(async move {
            let mut listener = move |progress: Progress<'_>| {
                if let Progress::Event(RunEvent::ApprovalAsked(approval), _) = &progress {
                    let _ = asked.send((**approval).clone());
                }
                let mut updates = heard.lock().unwrap_or_else(PoisonError::into_inner);
                updates.progress(&progress);
            };
            let mut driven = Box::pin(live.drive(&mut listener));
            tokio::select! {
                driven = &mut driven => return driven,
                () = stop.cancelled() => stopped.stop(),
            }
            driven.await
        });
        let session = self.session.id().as_str();
        let peer = &self.connection.peer;
        let mut asking = FuturesUnordered::new();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let driven = loop {
            tokio::select! {
                driven = &mut driving => break driven,
                Some(approval) = approvals.recv() => {
                    // What is to be approved is there before the question.
                    self.flush(&updates).await;
                    let (run, control) = (&run, &control);
                    asking.push(async move {
                        let decision = decide(peer, session, run, &approval).await;
                        let decided = control.decide(&approval.id, &approval.hash, decision);
                        if let Err(error) = decided.await {
                            tracing::info!(%error, "a decision was refused");
                        }
                    });
                }
                Some(()) = asking.next(), if !asking.is_empty() => {}
                _ = tick.tick() => self.flush(&updates).await,
            }
        };
        self.flush(&updates).await;
        match driven {
            Ok(run) => run,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }

    /// Sends what waits. If the client is gone, the run is stopped.
    async fn flush(&self, updates: &Mutex<Updates>) {
        let waiting = {
            let mut updates = updates.lock().unwrap_or_else(PoisonError::into_inner);
            updates.take(Instant::now())
        };
        let session = self.session.id().as_str();
        for update in waiting {
            if self.connection.peer.update(session, update).await.is_err() {
                self.stop.cancel();
                return;
            }
        }
    }
}

/// A run that could not start, or could not continue.
fn run_error(error: &RunError) -> Error {
    let mut answer = Error::internal_error();
    answer.message = error.to_string();
    answer
}

/// Why a turn ended, in the protocol's words.
fn stop_reason(reason: &ExitReason) -> StopReason {
    match reason {
        ExitReason::Budget {
            part: BudgetPart::Steps | BudgetPart::Calls,
        } => StopReason::MaxTurnRequests,
        ExitReason::Budget { .. } => StopReason::MaxTokens,
        ExitReason::Stopped => StopReason::Cancelled,
        _ => StopReason::EndTurn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_for_the_reason_of_its_run() {
        let budget = |part| stop_reason(&ExitReason::Budget { part });
        assert_eq!(budget(BudgetPart::Steps), StopReason::MaxTurnRequests);
        assert_eq!(budget(BudgetPart::Calls), StopReason::MaxTurnRequests);
        assert_eq!(budget(BudgetPart::Tokens), StopReason::MaxTokens);
        assert_eq!(budget(BudgetPart::Money), StopReason::MaxTokens);
        assert_eq!(budget(BudgetPart::Seconds), StopReason::MaxTokens);
        assert_eq!(stop_reason(&ExitReason::Stopped), StopReason::Cancelled);
        for ends in [
            ExitReason::Answered,
            ExitReason::Unverified { doubts: Vec::new() },
            ExitReason::NotUnderstood,
            ExitReason::Repetition,
        ] {
            assert_eq!(stop_reason(&ends), StopReason::EndTurn);
        }
    }
}
