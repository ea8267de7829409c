//! Events of a run as those of a response. They follow from the journal alone, so a stream can begin anywhere.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_agent::{CallResult, CellResult, Ending, PYTHON, RunEvent};
use belljar_journal::Blobs;
use serde_json::{Value, json};

use super::container::container_id;
use super::container_files::file_id;
use super::follow::Finished;
use super::response_object::ResponseState;
use crate::problem::Problem;
use crate::runs::fault;

/// Maximum bytes of all images of a response: they are in memory, as base64.
const MAX_IMAGE_BYTES: u64 = 8 << 20;

/// Files that an answer cites, at most. Its container lists all.
const MAX_CITED: usize = 100;

impl ResponseState {
    /// Takes the next event of the run; what it is to a client.
    pub(super) async fn hear(
        &mut self,
        event: &RunEvent,
        blobs: &Blobs,
    ) -> Result<Vec<Value>, Problem> {
        let applied = self.run.apply(event);
        applied.map_err(|error| fault(error.into()))?;
        let mut told = Vec::new();
        match event {
            RunEvent::Started(start) => {
                self.language = start.language;
                for kind in ["response.created", "response.in_progress"] {
                    told.push(json!({"type": kind, "response": self.object(true)}));
                }
            }
            RunEvent::Replied { step, reply, .. } => {
                self.count(&reply.usage);
                self.think(*step, &mut told);
            }
            RunEvent::CallStarted { step, call } => self.begin_cell(*step, *call, &mut told),
            RunEvent::CallEnded { step, call, result } => {
                let id = self.cell_id(*step, *call);
                let cell = result.cell.as_ref().filter(|cell| !cell.lost);
                let status = cell.map_or("failed", |_| "completed");
                let outputs = self.outputs(result, blobs).await?;
                self.end_cell(&id, status, outputs, &mut told);
            }
            RunEvent::CallLost { step, call, .. } => {
                let id = self.cell_id(*step, *call);
                self.end_cell(&id, "incomplete", Value::Null, &mut told);
            }
            RunEvent::Ended(ending) => self.end(ending, &mut told),
            _ => {}
        }
        Ok(told)
    }

    fn cell_id(&self, step: u32, call: u32) -> String {
        format!("ci_{}_{step}_{call}", self.id)
    }

    fn container(&self) -> String {
        container_id(self.id.as_str())
    }

    /// Adds an item; its index.
    fn add(&mut self, item: Value, told: &mut Vec<Value>) -> usize {
        let index = self.output.len();
        told.push(
            json!({"type": "response.output_item.added", "output_index": index, "item": item}),
        );
        self.output.push(item);
        index
    }

    /// The thoughts of a step, if the model gave any.
    fn think(&mut self, step: u32, told: &mut Vec<Value>) {
        let last = self.run.steps().last().filter(|last| last.number == step);
        let Some(thought) = last.and_then(|last| last.thought.as_deref()) else {
            return;
        };
        let item = json!({
            "id": format!("rs_{}_{step}", self.id),
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": thought}],
        });
        let index = self.add(item, told);
        told.push(self.done(index));
    }

    fn done(&self, index: usize) -> Value {
        let item = &self.output[index];
        json!({"type": "response.output_item.done", "output_index": index, "item": item})
    }

    fn begin_cell(&mut self, step: u32, call: u32, told: &mut Vec<Value>) {
        let id = self.cell_id(step, call);
        let mut steps = self.run.steps().iter().rev();
        let calls = steps.find(|known| known.number == step);
        let call = calls.and_then(|step| step.calls.get(usize::try_from(call).ok()?));
        let Some(code) = call
            .filter(|call| call.tool == PYTHON)
            .and_then(|call| call.code())
        else {
            return;
        };
        // Begun once more after the death of a host.
        if self.find(&id).is_some() {
            return;
        }
        let code = code.to_owned();
        let item = json!({
            "id": id,
            "type": "code_interpreter_call",
            "status": "in_progress",
            "code": "",
            "container_id": self.container(),
            "outputs": null,
        });
        let index = self.add(item, told);
        let about = |kind: &str| json!({"type": kind, "output_index": index, "item_id": id});
        told.push(about("response.code_interpreter_call.in_progress"));
        let mut delta = about("response.code_interpreter_call_code.delta");
        delta["delta"] = code.as_str().into();
        told.push(delta);
        let mut done = about("response.code_interpreter_call_code.done");
        done["code"] = code.as_str().into();
        told.push(done);
        told.push(about("response.code_interpreter_call.interpreting"));
        let item = &mut self.output[index];
        item["code"] = code.into();
        item["status"] = "interpreting".into();
    }

    fn find(&self, id: &str) -> Option<usize> {
        self.output.iter().position(|item| item["id"] == id)
    }

    fn end_cell(&mut self, id: &str, status: &str, outputs: Value, told: &mut Vec<Value>) {
        // A call that was not begun is none.
        let Some(index) = self.find(id) else {
            return;
        };
        let item = &mut self.output[index];
        item["status"] = status.into();
        item["outputs"] = outputs;
        if status == "completed" {
            let kind = "response.code_interpreter_call.completed";
            told.push(json!({"type": kind, "output_index": index, "item_id": id}));
        }
        told.push(self.done(index));
    }

    /// What a cell has printed and shown, if the client wants it.
    async fn outputs(&mut self, result: &CallResult, blobs: &Blobs) -> Result<Value, Problem> {
        if !self.shows_outputs {
            return Ok(Value::Null);
        }
        let mut outputs = Vec::new();
        let logs = match &result.cell {
            Some(CellResult { output, .. }) if !result.failed => output,
            // With the cause, and what has become of the variables.
            _ => &result.text,
        };
        if !logs.is_empty() {
            outputs.push(json!({"type": "logs", "logs": logs}));
        }
        let images = result.cell.as_ref().map_or(&[][..], |cell| &cell.images);
        for image in images {
            if self.image_bytes + image.bytes > MAX_IMAGE_BYTES {
                let id = &self.id;
                let logs = format!("[image of {} bytes: see /v1/runs/{id}/steps]", image.bytes);
                outputs.push(json!({"type": "logs", "logs": logs}));
                continue;
            }
            self.image_bytes += image.bytes;
            let bytes = blobs.get(image).await;
            let bytes = bytes.map_err(|error| fault(error.into()))?;
            let url = format!("data:{};base64,{}", image.media_type, BASE64.encode(bytes));
            outputs.push(json!({"type": "image", "url": url}));
        }
        Ok(outputs.into())
    }

    fn end(&mut self, ending: &Ending, told: &mut Vec<Value>) {
        for index in 0..self.output.len() {
            // It was cancelled within a cell.
            if self.output[index]["status"] == "interpreting" {
                self.output[index]["status"] = "incomplete".into();
                told.push(self.done(index));
            }
        }
        let finished = Finished::new(ending, self.language);
        let kind = match &finished {
            Finished::Answered(text) => {
                self.answer(text, "completed", ending, told);
                "response.completed"
            }
            Finished::Cut(text) => {
                self.answer(text, "incomplete", ending, told);
                "response.incomplete"
            }
            Finished::Cancelled(_) | Finished::Failed(_) => "response.failed",
        };
        self.finished = Some(finished);
        told.push(json!({"type": kind, "response": self.object(false)}));
    }

    fn answer(&mut self, text: &str, status: &str, ending: &Ending, told: &mut Vec<Value>) {
        let id = format!("msg_{}", self.id);
        let item = json!({
            "id": id, "type": "message", "role": "assistant", "status": "in_progress", "content": [],
        });
        let index = self.add(item, told);
        let about = |kind: &str| json!({"type": kind, "output_index": index, "item_id": id, "content_index": 0});
        let part = |text: &str, annotations: &[Value]| json!({"type": "output_text", "text": text, "annotations": annotations, "logprobs": []});
        let mut added = about("response.content_part.added");
        added["part"] = part("", &[]);
        told.push(added);
        let mut delta = about("response.output_text.delta");
        (delta["delta"], delta["logprobs"]) = (text.into(), json!([]));
        told.push(delta);
        let cited = ending.artifacts.iter().take(MAX_CITED);
        let cited: Vec<Value> = cited.map(|file| self.citation(text, &file.path)).collect();
        for (number, annotation) in cited.iter().enumerate() {
            let mut added = about("response.output_text.annotation.added");
            added["annotation_index"] = number.into();
            added["annotation"] = annotation.clone();
            told.push(added);
        }
        let mut done = about("response.output_text.done");
        (done["text"], done["logprobs"]) = (text.into(), json!([]));
        told.push(done);
        let part = part(text, &cited);
        let mut done = about("response.content_part.done");
        done["part"] = part.clone();
        told.push(done);
        let item = &mut self.output[index];
        item["status"] = status.into();
        item["content"] = json!([part]);
        told.push(self.done(index));
    }

    /// A file that the run made, and where the answer names it; at its end, if it does not.
    fn citation(&self, text: &str, path: &str) -> Value {
        let name = path.rsplit('/').next().unwrap_or(path);
        let found = [path, name].iter().find_map(|name| {
            let at = text.find(name)?;
            Some((at, at + name.len()))
        });
        let (start, end) = found.unwrap_or((text.len(), text.len()));
        let characters = |bytes: usize| text[..bytes].chars().count();
        json!({
            "type": "container_file_citation",
            "container_id": self.container(),
            "file_id": file_id(path),
            "filename": name,
            "start_index": characters(start),
            "end_index": characters(end),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_citation_counts_characters() {
        let state = ResponseState::new("r".parse().unwrap(), 0, false);
        let cite = |text: &str, path: &str| {
            let citation = state.citation(text, path);
            (
                citation["start_index"].clone(),
                citation["end_index"].clone(),
            )
        };
        assert_eq!(
            cite("Größe: out/a.png.", "out/a.png"),
            (json!(7), json!(16))
        );
        assert_eq!(cite("See a.png", "out/a.png"), (json!(4), json!(9)));
        assert_eq!(cite("é", "a"), (json!(1), json!(1)));
    }
}
