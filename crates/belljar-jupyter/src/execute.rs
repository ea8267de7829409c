//! Running a cell.

use belljar_protocol::{Event, Fate, Outcome, Stream};
use belljar_sandbox::{Cell, Error};
use serde_json::{Value, json};

use crate::content::ExecuteRequest;
use crate::host::{CellEvents as _, Host, HostError};
use crate::kernel::Request;
use crate::outputs::{Failure, display, marked, remarks};
use crate::shell::{Shell, Then};

/// What a running cell has shown of its streams.
#[derive(Default)]
struct Shown {
    bytes: [usize; 2],
    is_cut: [bool; 2],
}

impl<H: Host> Shell<'_, H> {
    /// Runs a cell. Returns the content of the reply.
    pub(crate) async fn execute(
        &mut self,
        request: &Request,
        asked: &ExecuteRequest,
    ) -> Result<(Value, Then), HostError> {
        // As a prompt does: an empty line is no cell.
        let is_blank = asked.code.trim().is_empty();
        if !asked.silent && asked.store_history && !is_blank {
            self.execution_count = self.execution_count.saturating_add(1);
            self.history.push(self.execution_count, &asked.code);
        }
        let count = self.execution_count;
        if !asked.silent {
            let content = json!({"code": asked.code, "execution_count": count});
            self.publish(request, "execute_input", content).await;
        }
        let ran = if is_blank {
            Ok(None)
        } else {
            self.run_cell(request, asked).await.map(Some)
        };
        let (failure, remarks, is_lost) = match &ran {
            Ok(None) => (None, Vec::new(), false),
            Ok(Some(outcome)) => (
                Failure::from_outcome(outcome, &self.labels),
                self.remarks(outcome),
                outcome.state == Fate::Lost,
            ),
            Err(error) => (Some(Failure::from_error(error)), Vec::new(), false),
        };
        if !asked.silent {
            if let Some(failure) = &failure {
                self.publish(request, "error", failure.content()).await;
            }
            if !remarks.is_empty() {
                self.stream(request, Stream::Stderr, &marked(&remarks))
                    .await;
            }
        }
        if is_lost {
            self.labels.clear();
            self.kernel.replace_session(&request.message.header).await?;
        }
        if let Err(error) = &ran {
            self.replace_ended(error, request).await?;
        }
        Ok(match failure {
            Some(failure) if asked.stop_on_error => (failure.reply(count), Then::Abort),
            Some(failure) => (failure.reply(count), Then::Nothing),
            None => {
                let content = json!({
                    "status": "ok", "execution_count": count, "user_expressions": {}, "payload": [],
                });
                (content, Then::Nothing)
            }
        })
    }

    /// Runs a cell, and publishes what it shows.
    async fn run_cell(
        &mut self,
        request: &Request,
        asked: &ExecuteRequest,
    ) -> Result<Outcome, HostError> {
        let cell = Cell {
            input: asked.allow_stdin,
            installs: true,
            ..Cell::from(asked.code.as_str())
        };
        let mut run = self.kernel.host.run(cell).await?;
        let mut shown = Shown::default();
        while let Some(event) = run.next().await {
            match event? {
                Event::Started { cell } => self.labels.insert(cell, self.execution_count),
                Event::InputRequested {
                    call,
                    prompt,
                    password,
                } => {
                    self.kernel.set_question(Some(call));
                    let content = json!({"prompt": prompt, "password": password});
                    self.kernel.ask(request, content).await;
                }
                Event::InputClosed { .. } => self.kernel.set_question(None),
                Event::Outcome(outcome) => {
                    self.kernel.set_question(None);
                    if !asked.silent {
                        self.rest(request, &outcome, &shown).await;
                    }
                    return Ok(*outcome);
                }
                _ if asked.silent => {}
                Event::Output { stream, text } => {
                    shown.bytes[place(stream)] += text.len();
                    self.stream(request, stream, &text).await;
                }
                Event::Truncated { stream } => shown.is_cut[place(stream)] = true,
                Event::Display(shown) => {
                    let (kind, content) = display(&shown, self.execution_count);
                    self.publish(request, kind, content).await;
                }
                Event::Cleared { wait } => {
                    self.publish(request, "clear_output", json!({"wait": wait}))
                        .await;
                }
                // The outcome says what the network denied. Tools are not granted here.
                Event::Denied(_)
                | Event::Called { .. }
                | Event::CallDenied { .. }
                | Event::CallCancelled { .. } => {}
            }
        }
        Err(Error::Ended("its cell ended without an outcome".into()).into())
    }

    /// Publishes the end of output that was too long to show live.
    async fn rest(&self, request: &Request, outcome: &Outcome, shown: &Shown) {
        let outputs = [&outcome.stdout, &outcome.stderr];
        for (stream, output) in [Stream::Stdout, Stream::Stderr].into_iter().zip(outputs) {
            let place = place(stream);
            if shown.is_cut[place]
                && let Some(rest) = output.text.get(shown.bytes[place]..)
            {
                self.stream(request, stream, rest).await;
            }
        }
    }

    /// Our own words about an outcome.
    fn remarks(&mut self, outcome: &Outcome) -> Vec<String> {
        let language = self.kernel.options.language;
        let mut remarks = remarks(outcome, language);
        remarks.extend(self.notice.take().map(str::to_owned));
        if !outcome.artifacts.is_empty() {
            remarks.extend(self.files.take().map(str::to_owned));
        }
        if outcome.state == Fate::Lost {
            remarks.push(language.texts().kernel.lost.to_owned());
        }
        remarks
    }

    async fn stream(&self, request: &Request, stream: Stream, text: &str) {
        let name = match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        self.publish(request, "stream", json!({"name": name, "text": text}))
            .await;
    }

    async fn publish(&self, request: &Request, kind: &str, content: Value) {
        let parent = &request.message.header;
        self.kernel.publish(kind, parent, content).await;
    }
}

fn place(stream: Stream) -> usize {
    usize::from(stream == Stream::Stderr)
}
