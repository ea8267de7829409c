use std::collections::BTreeMap;

use belljar_agent::{Approvals, Budget, CellResult, Ending, ExitReason, Policy, Start};
use belljar_protocol::{Display, DisplayData, Stream};
use serde_json::Value;

use super::*;

/// A run that is watched, event by event.
struct Watched {
    run: Run,
    updates: Updates,
    now: Instant,
}

impl Watched {
    fn new(dialect: Dialect) -> Self {
        let mut watched = Self {
            run: Run::default(),
            updates: Updates::new(
                "r".parse().unwrap(),
                "/runs/r/artifacts".into(),
                dialect,
                Language::English,
            ),
            now: Instant::now(),
        };
        let start = Start {
            task: "How much?".into(),
            files: Vec::new(),
            model: "llamacpp/none".into(),
            dialect,
            language: Language::English,
            prompts: None,
            budget: Budget::default(),
            context_window: 4096,
            max_tokens: 512,
            temperature: None,
            review: false,
            tools: vec![PLAN.into()],
            packages: Vec::new(),
            versions: Vec::new(),
            granted: Vec::new(),
            approvals: Approvals {
                policy: Policy::Risky,
                ..Approvals::default()
            },
            branches: None,
            parent: None,
            environment: None,
            isolation: None,
            client: None,
        };
        assert_eq!(
            watched.event(&RunEvent::Started(Box::new(start))),
            json!([])
        );
        watched
    }

    fn event(&mut self, event: &RunEvent) -> Value {
        self.run.apply(event).unwrap();
        self.hear(&[Progress::Event(event, &self.run.clone())])
    }

    /// What a client gets of this.
    fn hear(&mut self, progress: &[Progress<'_>]) -> Value {
        for progress in progress {
            self.updates.progress(progress);
        }
        serde_json::to_value(self.updates.take(self.now)).unwrap()
    }

    /// The model is asked, and replies.
    fn reply(&mut self, reply: &Value) -> Value {
        let step = u32::try_from(self.run.steps().len()).unwrap() + 1;
        let mut whole = json!({"text": "", "finish": "stop", "usage": {
            "input_tokens": 100, "output_tokens": 20, "cached_tokens": 0, "cache_write_tokens": 0,
            "thinking_tokens": 0, "estimated": false,
        }});
        whole
            .as_object_mut()
            .unwrap()
            .extend(reply.as_object().unwrap().clone());
        self.event(&RunEvent::Asked { step, body: blob() });
        self.event(&RunEvent::Replied {
            step,
            reply: Box::new(serde_json::from_value(whole).unwrap()),
            took_ms: 1,
            cost: None,
        })
    }
}

fn blob() -> belljar_journal::BlobRef {
    let blob = json!({"hash": "0".repeat(64), "bytes": 0, "media_type": "application/json"});
    serde_json::from_value(blob).unwrap()
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({"tool_calls": [{"id": "c", "name": tool, "arguments": arguments.to_string()}]})
}

fn cell(output: &str) -> CallResult {
    CallResult {
        text: output.into(),
        cell: Some(CellResult {
            number: 1,
            outcome: blob(),
            output: output.into(),
            error: None,
            images: Vec::new(),
            artifacts: Vec::new(),
            manifest: Vec::new(),
            lost: false,
        }),
        ..CallResult::default()
    }
}

fn text_of(update: &Value) -> &str {
    update["content"]["text"].as_str().unwrap_or_default()
}

#[test]
fn text_and_thoughts_come_as_they_are_written() {
    let mut watched = Watched::new(Dialect::NativeTools);
    let text = |delta: &str| ReplyEvent::Text {
        delta: delta.into(),
    };
    let thought = |delta: &str| ReplyEvent::Thinking {
        delta: delta.into(),
    };
    let parts = [thought("I "), thought("see. "), text("Now "), text("then:")];
    let parts: Vec<Progress<'_>> = parts.iter().map(Progress::Reply).collect();
    let heard = watched.hear(&parts);
    assert_eq!(heard.as_array().unwrap().len(), 2, "{heard}");
    assert_eq!(heard[0]["sessionUpdate"], "agent_thought_chunk");
    assert_eq!(text_of(&heard[0]), "I see. ");
    assert_eq!(heard[1]["sessionUpdate"], "agent_message_chunk");
    assert_eq!(text_of(&heard[1]), "Now then:");
    // In a dialect of texts, the text has actions in it: only what was understood is shown.
    let mut watched = Watched::new(Dialect::FencedCode);
    assert_eq!(watched.hear(&[Progress::Reply(&text("```py"))]), json!([]));
    let heard = watched.reply(&json!({"text": "First the sum.\n```python\nprint(42)\n```"}));
    assert_eq!(heard[0]["sessionUpdate"], "agent_thought_chunk");
    assert_eq!(text_of(&heard[0]), "First the sum.\n\n");
    assert_eq!(heard[1]["sessionUpdate"], "tool_call");
    assert_eq!(heard[2]["sessionUpdate"], "usage_update");
    assert_eq!(heard[2]["used"], 120);
    assert_eq!(heard[2]["size"], 4096);
}

#[test]
fn a_cell_is_a_call_with_its_output_and_figures() {
    let mut watched = Watched::new(Dialect::NativeTools);
    let heard = watched.reply(&call("python", &json!({"code": "print(42)\n# `````"})));
    let entry = &heard[0];
    assert_eq!(entry["toolCallId"], "r:1.0");
    assert_eq!(entry["title"], "Python: print(42)");
    assert_eq!(entry["kind"], "execute");
    assert_eq!(entry["rawInput"]["code"], "print(42)\n# `````");
    let shown = &entry["content"][0]["content"]["text"];
    assert_eq!(shown, "``````python\nprint(42)\n# `````\n``````");
    let heard = watched.event(&RunEvent::CallStarted { step: 1, call: 0 });
    assert_eq!(heard[0]["status"], "in_progress");
    let display = Display {
        parts: vec![DisplayData {
            mime: "image/png".into(),
            data: vec![1, 2, 3],
        }],
        value: false,
        id: None,
        update: false,
        metadata: serde_json::Map::new(),
    };
    watched.updates.cell.as_mut().unwrap().images = images(&[display]);
    let heard = watched.event(&RunEvent::CallEnded {
        step: 1,
        call: 0,
        result: Box::new(cell("42\n")),
    });
    let end = &heard[0];
    assert_eq!(end["status"], "completed", "{end}");
    assert_eq!(end["content"][1]["content"]["text"], "```\n42\n```");
    let image = json!({"type": "image", "mimeType": "image/png", "data": "AQID"});
    assert_eq!(end["content"][2]["content"], image);
    assert_eq!(end["rawOutput"]["cell"], 1);
}

/// Output replaces what was shown before, at most four times a second, however often a cell prints.
#[test]
fn output_comes_at_most_four_times_a_second() {
    let mut watched = Watched::new(Dialect::NativeTools);
    watched.reply(&call("python", &json!({"code": "loop()"})));
    watched.event(&RunEvent::CallStarted { step: 1, call: 0 });
    let mut heard = Vec::new();
    for tick in 0..1000 {
        let output = Event::Output {
            stream: Stream::Stdout,
            text: format!("line {tick} \u{1b}[31mred\n"),
        };
        let update = watched.hear(&[Progress::Cell(&output)]);
        heard.extend(update.as_array().unwrap().clone());
        watched.now += Duration::from_millis(10);
    }
    // Ten seconds.
    assert_eq!(heard.len(), 40);
    let last = heard.last().unwrap()["content"][1]["content"]["text"].as_str();
    let last = last.unwrap();
    assert!(last.contains("line 975 red"), "{last}");
    assert!(last.len() < OUTPUT + 100 && !last.contains('\u{1b}'));
    // What came last is shown, too, when nothing more comes.
    watched.now += BETWEEN;
    let rest = watched.hear(&[]);
    assert!(rest.to_string().contains("line 999 red"), "{rest}");
    assert_eq!(watched.hear(&[]), json!([]));
}

#[test]
fn what_a_person_rejects_has_failed() {
    let mut watched = Watched::new(Dialect::NativeTools);
    let code = "import os\nos.remove('x')";
    watched.reply(&call("python", &json!({"code": code})));
    let belljar_agent::Effect::Ask { approvals } = watched.run.effect() else {
        panic!("{:?}", watched.run.effect());
    };
    let approval = approvals[0].clone();
    let asked = watched.event(&RunEvent::ApprovalAsked(Box::new(approval.clone())));
    assert_eq!(asked, json!([]));
    let heard = watched.event(&RunEvent::ApprovalDecided {
        approval: approval.id,
        hash: approval.hash,
        decision: Decision::Reject,
    });
    assert_eq!(heard[0]["toolCallId"], "r:1.0");
    assert_eq!(heard[0]["status"], "failed");
}

#[test]
fn a_plan_is_shown_whole() {
    let mut watched = Watched::new(Dialect::NativeTools);
    let tree = json!({"core_goal": "g", "tree_nodes": [
        {"task_name": "read", "status": "completed"},
        {"task_name": "count", "status": "processing", "children": [
            {"task_name": "check", "status": "failed"}, {"task_name": "plot"},
        ]},
    ]});
    let heard = watched.reply(&call(PLAN, &tree));
    assert_eq!(heard[0]["sessionUpdate"], "usage_update", "{heard}");
    watched.event(&RunEvent::CallStarted { step: 1, call: 0 });
    let heard = watched.event(&RunEvent::CallEnded {
        step: 1,
        call: 0,
        result: Box::new(CallResult::default()),
    });
    let entry = |content: &str, status: &str| json!({"content": content, "priority": "medium", "status": status});
    let entries = json!([
        entry("read", "completed"),
        entry("count", "in_progress"),
        entry("  failed: check", "completed"),
        entry("  plot", "pending"),
    ]);
    assert_eq!(heard[0]["entries"], entries, "{heard}");
}

#[test]
fn an_answer_is_said_once_with_its_evidence_and_files() {
    let end = |answer: Option<&str>, reason| Ending {
        reason,
        answer: answer.map(str::to_owned),
        last_output: None,
        evidence: serde_json::from_value(json!([
            {"value": "42", "seen": {"kind": "output", "step": 1, "cell": 1, "line": "42"}},
        ]))
        .unwrap(),
        artifacts: serde_json::from_value(json!([
            {"path": "a b.csv", "size": 7, "change": "created"},
        ]))
        .unwrap(),
        contents: BTreeMap::new(),
        not_kept: Vec::new(),
        not_kept_more: 0,
    };
    let mut watched = Watched::new(Dialect::FencedCode);
    let answered = end(Some("It is 42."), ExitReason::Answered);
    let heard = watched.event(&RunEvent::Ended(Box::new(answered.clone())));
    assert!(
        text_of(&heard[0]).starts_with("It is 42.\n\n- 42: "),
        "{heard}"
    );
    let link = &heard[1]["content"];
    assert_eq!(link["type"], "resource_link");
    assert_eq!(link["uri"], "file:///runs/r/artifacts/a%20b.csv");
    assert_eq!(link["size"], 7);
    // It was said already.
    let mut watched = Watched::new(Dialect::NativeTools);
    let said = ReplyEvent::Text {
        delta: "It is 42.".into(),
    };
    watched.hear(&[Progress::Reply(&said)]);
    let heard = watched.event(&RunEvent::Ended(Box::new(answered)));
    assert_eq!(text_of(&heard[0]), "\n\n");
    assert!(text_of(&heard[1]).starts_with("- 42: "), "{heard}");
    let mut watched = Watched::new(Dialect::NativeTools);
    let failed = ExitReason::ModelFailed {
        error: "no \u{1b}[2Jserver".into(),
    };
    let heard = watched.event(&RunEvent::Ended(Box::new(end(None, failed))));
    let said = text_of(&heard[0]);
    assert!(said.contains("no server"), "{said}");
}
