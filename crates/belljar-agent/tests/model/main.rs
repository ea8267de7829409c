//! The clients of model providers (AGT-4), against a scripted server.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bodies;
mod faults;
mod replies;

use belljar_agent::{
    ApiKey, Message, ModelError, ModelRequest, Profile, Provider, Reply, ReplyEvent, Retries,
    Timeouts, WireFormat,
};
use belljar_test_model::{Scripted, ScriptedModel};

const BOTH: [WireFormat; 2] = [WireFormat::ChatCompletions, WireFormat::Messages];
const KEY: &str = "sk-test-1234567890";

/// A profile for the scripted server, that waits only as long as a test may.
fn profile(model: &ScriptedModel, wire: WireFormat) -> Profile {
    Profile {
        wire,
        base_url: model.base_url(),
        timeouts: Timeouts {
            connect_ms: 2000,
            first_byte_ms: 10_000,
            idle_ms: 10_000,
            whole_ms: 60_000,
        },
        retries: Retries {
            attempts: 3,
            first_wait_ms: 2,
            within_ms: 20_000,
        },
        ..Profile::built_in("llamacpp").unwrap()
    }
}

fn provider(profile: Profile) -> Provider {
    Provider::with_key(profile, "the-model", ApiKey::new(KEY)).unwrap()
}

fn question() -> ModelRequest {
    ModelRequest {
        messages: vec![Message::user("What is 6 * 7?")],
        ..ModelRequest::default()
    }
}

/// Asks the question, and returns what was heard on the way.
async fn ask(provider: &Provider) -> (Result<Reply, ModelError>, Vec<ReplyEvent>) {
    let mut events = Vec::new();
    let result = provider.send(&question(), |event| events.push(event)).await;
    (result, events)
}

/// One script, one question.
async fn once(
    script: Scripted,
    wire: WireFormat,
    stream: bool,
) -> (Result<Reply, ModelError>, Vec<ReplyEvent>) {
    let model = ScriptedModel::start([script]).unwrap();
    let profile = Profile {
        stream,
        retries: Retries {
            attempts: 1,
            ..Retries::default()
        },
        ..profile(&model, wire)
    };
    ask(&provider(profile)).await
}
