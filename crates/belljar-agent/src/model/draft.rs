//! A reply in the making, within bounds.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::error::ModelFault;
use super::reply::{Finish, Reply, ReplyEvent, Usage};
use super::request::ToolCall;

/// The most text, thought and arguments of one reply, in bytes.
const MAX_CONTENT: usize = 8 << 20;
/// The most calls of one reply.
const MAX_CALLS: usize = 128;

/// Who hears of a reply while it comes.
pub(super) type Listener<'a> = &'a mut (dyn FnMut(ReplyEvent) + Send);

/// A reply in the making.
pub(super) struct Draft<'a> {
    reply: Reply,
    listener: Listener<'a>,
    /// Which call the server means by an index.
    places: HashMap<u64, usize>,
    /// Which sealed thought the server means by an index.
    seals: HashMap<u64, usize>,
    content: usize,
    finish: Option<Finish>,
    /// The reply was kept back, and what the server said of that.
    filtered: Option<String>,
    /// The one call is a `function_call` of an older server.
    legacy: bool,
    /// The server has said that nothing more comes.
    pub(super) done: bool,
}

impl<'a> Draft<'a> {
    pub(super) fn new(listener: Listener<'a>) -> Self {
        Self {
            reply: Reply::default(),
            listener,
            places: HashMap::new(),
            seals: HashMap::new(),
            content: 0,
            finish: None,
            filtered: None,
            legacy: false,
            done: false,
        }
    }

    pub(super) fn text(&mut self, delta: &str) -> Result<(), ModelFault> {
        if delta.is_empty() {
            return Ok(());
        }
        self.grow(delta.len())?;
        self.reply.text.push_str(delta);
        (self.listener)(ReplyEvent::Text {
            delta: delta.to_owned(),
        });
        Ok(())
    }

    pub(super) fn thinking(&mut self, delta: &str) -> Result<(), ModelFault> {
        if delta.is_empty() {
            return Ok(());
        }
        self.grow(delta.len())?;
        self.reply.thinking.push_str(delta);
        (self.listener)(ReplyEvent::Thinking {
            delta: delta.to_owned(),
        });
        Ok(())
    }

    /// A fragment of a call. Servers differ: most give each call an index, and id and name only in
    /// its first fragment; some leave the index out, some give all calls the index 0, some repeat
    /// the id in every fragment. So a call begins with an id (or, without index, a name) that is
    /// not the one of the call at hand.
    pub(super) fn call(
        &mut self,
        index: Option<u64>,
        id: &str,
        name: &str,
        arguments: &str,
    ) -> Result<(), ModelFault> {
        let known = match index {
            Some(index) => self.places.get(&index).copied(),
            None if name.is_empty() => self.reply.tool_calls.len().checked_sub(1),
            None => None,
        };
        let same = |place: usize| {
            let call = &self.reply.tool_calls[place];
            id.is_empty() || call.id.is_empty() || id == call.id
        };
        let place = match known.filter(|&place| same(place)) {
            Some(place) => place,
            None => self.begin_call(index)?,
        };
        self.grow(id.len() + name.len() + arguments.len())?;
        let call = &mut self.reply.tool_calls[place];
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() && !name.is_empty() {
            name.clone_into(&mut call.name);
            (self.listener)(ReplyEvent::ToolCall {
                index: place,
                name: name.to_owned(),
            });
        }
        if !arguments.is_empty() {
            call.arguments.push_str(arguments);
            (self.listener)(ReplyEvent::ToolArguments {
                index: place,
                delta: arguments.to_owned(),
            });
        }
        Ok(())
    }

    /// A fragment of the one call that older servers make.
    pub(super) fn legacy_call(&mut self, name: &str, arguments: &str) -> Result<(), ModelFault> {
        self.legacy = true;
        self.call(Some(0), "", name, arguments)
    }

    fn begin_call(&mut self, index: Option<u64>) -> Result<usize, ModelFault> {
        let place = self.reply.tool_calls.len();
        if place == MAX_CALLS {
            return Err(ModelFault::TooLarge {
                what: "tool calls".to_owned(),
                limit: MAX_CALLS,
            });
        }
        self.reply.tool_calls.push(ToolCall::default());
        if let Some(index) = index {
            self.places.insert(index, place);
        }
        Ok(place)
    }

    /// A sealed thought begins.
    pub(super) fn seal(&mut self, index: u64, block: &Value) -> Result<(), ModelFault> {
        self.grow(block.to_string().len())?;
        self.seals.insert(index, self.reply.sealed_thinking.len());
        self.reply.sealed_thinking.push(block.clone());
        Ok(())
    }

    /// More of a sealed thought's field.
    pub(super) fn seal_more(
        &mut self,
        index: u64,
        field: &str,
        delta: &str,
    ) -> Result<(), ModelFault> {
        self.grow(delta.len())?;
        if let Some(&place) = self.seals.get(&index) {
            let value = &mut self.reply.sealed_thinking[place][field];
            match value {
                Value::String(text) => text.push_str(delta),
                _ => *value = json!(delta),
            }
        }
        Ok(())
    }

    pub(super) fn model(&mut self, model: &str) {
        if self.reply.model.is_none() && !model.is_empty() && model.len() <= 256 {
            self.reply.model = Some(model.to_owned());
        }
    }

    pub(super) fn usage(&mut self) -> &mut Usage {
        &mut self.reply.usage
    }

    pub(super) fn finish(&mut self, finish: Finish) {
        self.finish = Some(finish);
    }

    pub(super) fn filtered(&mut self, said: &str) {
        self.finish = Some(Finish::Stop);
        self.filtered = Some(said.to_owned());
    }

    /// Whether the model has said why it ended, so that nothing of its reply can be missing.
    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// What has come, if anything has.
    pub(super) fn partial(mut self) -> Option<Box<Reply>> {
        self.reply.finish = Finish::Other("cut".to_owned());
        (self.content > 0).then(|| Box::new(self.reply))
    }

    /// Puts the whole reply in order: unique ids, arguments, the reason of its end.
    pub(super) fn complete(&mut self) -> Result<Reply, ModelFault> {
        if let Some(said) = &self.filtered {
            return Err(ModelFault::ContentFilter { said: said.clone() });
        }
        let mut finish = self.finish.clone().unwrap_or_default();
        if finish == Finish::Stop && !self.reply.tool_calls.is_empty() {
            finish = Finish::ToolCalls; // Ollama says `stop`
        }
        let says_nothing = self.reply.tool_calls.is_empty() && self.reply.text.trim().is_empty();
        if says_nothing && finish != Finish::Length {
            return Err(ModelFault::Empty);
        }
        let mut reply = std::mem::take(&mut self.reply);
        reply.finish = finish;
        let legacy = self.legacy && reply.tool_calls.len() == 1;
        let mut seen = HashSet::new();
        for (place, call) in reply.tool_calls.iter_mut().enumerate() {
            if call.arguments.trim().is_empty() {
                "{}".clone_into(&mut call.arguments);
            }
            // Each call gets one result, by its id.
            if call.id.is_empty() && !legacy {
                call.id = format!("call_{place}");
            }
            while !seen.insert(call.id.clone()) {
                call.id = format!("{}_{place}", call.id);
            }
        }
        Ok(reply)
    }

    fn grow(&mut self, bytes: usize) -> Result<(), ModelFault> {
        self.content += bytes;
        if self.content > MAX_CONTENT {
            return Err(ModelFault::TooLarge {
                what: "bytes of text".to_owned(),
                limit: MAX_CONTENT,
            });
        }
        Ok(())
    }
}
