//! Driving a run until it ends or is released, with its live output and its accounting.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use belljar_agent::{Control, LiveRun, Progress, ReplyEvent, RunEvent};
use belljar_journal::RunId;
use belljar_sandbox::protocol::Event;
use opentelemetry::Context;
use opentelemetry::context::FutureExt as _;
use opentelemetry::trace::TraceContextExt as _;
use serde::Serialize;
use tokio::sync::watch;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::begin::RunPermits;
use super::{NOT_ASKED, Runs};
use crate::admission::Admission;
use crate::lock::lock;
use crate::tenants::{Quota, TenantName};

/// How much live output of replies and cells is kept while a run is running; a slower reader misses the rest.
const SAID_BYTES: usize = 1 << 20;

/// A run that is being driven.
#[derive(Debug)]
pub(super) struct Driven {
    id: RunId,
    pub(super) tenant: TenantName,
    admission: Arc<Admission>,
    pub(super) control: Control,
    said: Arc<Mutex<RecentParts>>,
    /// How many parts there have been.
    told: watch::Sender<u64>,
    doing: watch::Sender<Doing>,
}

/// Why a run is left before its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum LetGo {
    /// A person has not decided for too long.
    Waits,
    /// This service stops, or is drained.
    ForOthers,
    /// This service may drive it no longer, or ends at once.
    Dropped,
}

/// The parts that were said last. Once the reply or the cell that they are of has ended, its event has all of it.
#[derive(Debug, Default)]
struct RecentParts {
    /// The last of them has the number that `told` has.
    parts: VecDeque<Bytes>,
    bytes: usize,
    /// The number of the last part before the current reply or cell.
    ended: u64,
}

/// Somebody who hears what is said. Who does not listen holds nothing.
#[derive(Debug)]
pub(crate) struct Hearing {
    said: Arc<Mutex<RecentParts>>,
    told: watch::Receiver<u64>,
    heard: u64,
}

impl Hearing {
    /// The next part; `None` once nothing more will be said.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            {
                let said = lock(&self.said);
                let last = *self.told.borrow_and_update();
                let first = last - said.parts.len() as u64;
                self.heard = self.heard.max(first);
                let next = usize::try_from(self.heard - first).ok()?;
                if let Some(part) = said.parts.get(next) {
                    self.heard += 1;
                    return Some(part.clone());
                }
            }
            self.told.changed().await.ok()?;
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Doing {
    /// Calls that are being performed.
    calls: usize,
    /// Whether it waits for a person.
    waits: bool,
    /// Whether it has come to its end: what is left to do takes a moment.
    ended: bool,
}

impl Runs {
    /// Drives a run to its end, until it is left, or until nobody has decided for too long.
    pub(super) fn drive(self: &Arc<Self>, live: LiveRun, permits: RunPermits) {
        let driven = Arc::new(Driven {
            id: live.id().clone(),
            tenant: permits.run.tenant().clone(),
            admission: Arc::clone(&self.admission),
            control: live.control(),
            said: Arc::default(),
            told: watch::Sender::new(0),
            doing: watch::Sender::new(Doing {
                calls: live.run().started_calls(),
                waits: !live.run().undecided().is_empty(),
                ended: false,
            }),
        });
        lock(&self.driven).insert(driven.id.clone(), Arc::clone(&driven));
        let runs = Arc::clone(self);
        // A part of the trace of the request that started or resumed it, which ends sooner.
        let request = tracing::Span::current().context();
        let request = request.span().span_context().clone();
        let request = Context::new().with_remote_span_context(request);
        let work = async move {
            let mut listener = |progress: Progress<'_>| driven.hear(&progress);
            let ended = tokio::select! {
                ended = Box::pin(live.drive(&mut listener)) => ended.map(|_| None),
                why = runs.lets_go_of(&driven) => Ok(Some(why)),
            };
            let mut go_on_later = false;
            if let Err(error) = &ended {
                tracing::error!(run = %driven.id, %error, "run interrupted");
                go_on_later = error.storage_fault().is_some();
            }
            // Who hears of its end finds its permits free.
            drop(permits);
            {
                let mut all = lock(&runs.driven);
                if all
                    .get(&driven.id)
                    .is_some_and(|now| Arc::ptr_eq(now, &driven))
                {
                    all.remove(&driven.id);
                }
            }
            if runs.membership.is_some() {
                runs.release(&driven.id, ended, driven.control.is_stopped())
                    .await;
            } else if go_on_later {
                runs.go_on_later(&driven.tenant, &driven.id, driven.control.is_stopped());
            }
            runs.sweep(&driven.tenant);
        };
        self.tasks.spawn(work.with_context(request));
    }

    /// Waits for a reason to leave a run.
    async fn lets_go_of(&self, driven: &Driven) -> LetGo {
        let mut doing = driven.doing.subscribe();
        let quiet = async {
            tokio::select! {
                () = self.leave.cancelled() => {}
                () = self.drained.cancelled() => {}
            }
            // The sender is a part of what drives it.
            let _ = driven
                .doing
                .subscribe()
                .wait_for(|doing| doing.calls == 0 && !doing.ended)
                .await;
        };
        let waited = async {
            loop {
                let waits = doing.borrow_and_update().waits;
                let patience = if waits {
                    self.options.patience
                } else {
                    Duration::MAX
                };
                if tokio::time::timeout(patience, doing.changed())
                    .await
                    .is_err()
                {
                    return;
                }
            }
        };
        let life = lock(&self.life).clone();
        tokio::select! {
            () = quiet => LetGo::ForOthers,
            () = waited => LetGo::Waits,
            () = self.abandon.cancelled() => LetGo::Dropped,
            () = life.cancelled() => LetGo::Dropped,
        }
    }
}

impl Driven {
    fn hear(&self, progress: &Progress<'_>) {
        count(&self.admission, &self.tenant, progress, &self.control);
        match progress {
            Progress::Starts => self.doing.send_modify(|doing| doing.calls += 1),
            Progress::Event(event, run) => {
                if let RunEvent::ModelFailed { error, .. } = event {
                    tracing::error!(run = %self.id, error, "request to the model failed");
                }
                if let RunEvent::Replied { .. }
                | RunEvent::ModelFailed { .. }
                | RunEvent::CallEnded { .. }
                | RunEvent::CallLost { .. } = event
                {
                    lock(&self.said).ended = *self.told.borrow();
                }
                self.doing.send_modify(|doing| {
                    doing.calls = run.started_calls();
                    doing.waits = !run.undecided().is_empty();
                    doing.ended = run.ending().is_some();
                });
            }
            Progress::Reply(ReplyEvent::Retrying { after_ms, .. }) => {
                let why = NOT_ASKED.to_owned();
                let after_ms = *after_ms;
                self.tell("reply", &ReplyEvent::Retrying { after_ms, why });
            }
            Progress::Reply(part) => self.tell("reply", part),
            // It has paths of the host in it; `call_ended` tells what came of the cell.
            Progress::Cell(Event::Outcome(_)) => {}
            Progress::Cell(event) => self.tell("cell", event),
        }
    }

    /// Sends to listeners. It has no number: nobody can request it again.
    fn tell(&self, kind: &str, part: &impl Serialize) {
        match serde_json::to_string(part) {
            Ok(json) => {
                let rendered = Bytes::from(format!("event: {kind}\ndata: {json}\n\n"));
                let mut said = lock(&self.said);
                // One that is too large is in the event alone.
                if rendered.len() <= SAID_BYTES {
                    said.add(rendered);
                    // While nobody can look: both are changed at once.
                    self.told.send_modify(|told| *told += 1);
                }
            }
            Err(error) => tracing::error!(%error, "cannot write a part of a run"),
        }
    }

    /// Subscribes to live output; a new listener also gets the earlier output of the current reply or cell.
    pub(super) fn listen(&self, is_new: bool) -> Hearing {
        let said = lock(&self.said);
        let told = self.told.subscribe();
        let heard = if is_new { said.ended } else { *told.borrow() };
        Hearing {
            said: Arc::clone(&self.said),
            told,
            heard,
        }
    }
}

impl RecentParts {
    fn add(&mut self, part: Bytes) {
        self.bytes += part.len();
        self.parts.push_back(part);
        while self.bytes > SAID_BYTES {
            self.bytes -= self.parts.pop_front().map_or(self.bytes, |part| part.len());
        }
    }
}

/// Counts what a run uses, and ends it with the best answer that it has where that was all there was.
pub(crate) fn count(
    admission: &Admission,
    tenant: &TenantName,
    progress: &Progress<'_>,
    control: &Control,
) {
    let (event, run) = match progress {
        Progress::Event(event, run) => (event, run),
        Progress::Cell(Event::Outcome(outcome)) => {
            return admission.spend_cell_and_egress(tenant, outcome);
        }
        _ => return,
    };
    let (mut tokens, mut money) = (0, 0);
    if let RunEvent::Replied { reply, cost, .. } = event {
        tokens = reply.usage.input_tokens + reply.usage.output_tokens;
        money = micros(cost.unwrap_or_default());
    }
    let used = [
        (Quota::Events, 1),
        (Quota::Tokens, tokens),
        (Quota::MoneyMicros, money),
    ];
    admission.spend(tenant, &used);
    // Where a run's own budget is cut to what was left of tokens and money, it ends by that and says so.
    let looked_at: &[Quota] = match event {
        RunEvent::Asked { .. } => &Quota::OF_RUNS,
        _ => &Quota::OF_CELLS,
    };
    let isolation = run.start().and_then(|start| start.isolation);
    let is_too_weak =
        isolation.is_some_and(|walls| admission.isolation.check(tenant, walls).is_err());
    if is_too_weak || admission.check(tenant, looked_at).is_err() {
        control.stop();
    }
}

/// Money in millionths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is cut to what there is"
)]
fn micros(money: f64) -> u64 {
    (money * 1e6).round() as u64
}
