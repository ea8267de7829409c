//! What the tests start with.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use belljar_agent::{
    Agent, Approvals, Budget, Dialect, Evaluator, LiveRun, Profile, Provider, Run, RunEvent, Start,
    read_events,
};
use belljar_journal::Journal;
use belljar_sandbox::protocol::Language;
use belljar_sandbox::{Engine, Environment, EnvironmentSpec, EnvironmentStore};
use belljar_test_model::{Scripted, ScriptedModel};

/// The `default` environment; built if it is not there.
pub(crate) fn environment() -> Environment {
    static DATA: OnceLock<Environment> = OnceLock::new();
    DATA.get_or_init(|| {
        let store = EnvironmentStore::open_default().unwrap();
        store.load("default").unwrap_or_else(|_| {
            let spec = EnvironmentSpec::default_environment();
            let made = store.create(&spec, &mut |_| {});
            made.or_else(|_| store.load("default")).unwrap()
        })
    })
    .clone()
}

/// A model that says what a test wants, an engine, and a directory for the journal.
pub(crate) struct Desk {
    pub(crate) model: ScriptedModel,
    pub(crate) engine: Engine,
    directory: tempfile::TempDir,
}

impl Desk {
    pub(crate) fn new(script: impl IntoIterator<Item = Scripted>) -> Self {
        Self::with(ScriptedModel::start(script).unwrap())
    }

    pub(crate) fn with(model: ScriptedModel) -> Self {
        Self {
            model,
            // Most tests import nothing: libraries that are imported ahead would be most of their time.
            engine: Engine::builder(environment().preload_only(|_| false)).build(),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// The same with all libraries of the environment imported ahead, as sessions of users have it.
    pub(crate) fn with_libraries(mut self) -> Self {
        self.engine = Engine::builder(environment()).build();
        self
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) async fn agent(&self) -> Agent {
        let mut profile = Profile::built_in("llamacpp").unwrap();
        profile.base_url = self.model.base_url();
        profile.retries.attempts = 2;
        profile.retries.first_wait_ms = 10;
        let provider = Provider::new(profile, "scripted").unwrap();
        let evaluator = evaluator().map(|program| Evaluator::new(program, vec!["compute".into()]));
        Agent::open(self.directory(), self.engine.clone(), provider, evaluator)
            .await
            .unwrap()
    }

    pub(crate) async fn run(&self, start: Start) -> Run {
        let live = self.agent().await.start(start).await.unwrap();
        drive(live).await
    }

    /// What the model saw in its last request, as text.
    pub(crate) fn last_conversation(&self) -> String {
        let request = self.model.requests().pop().unwrap().json();
        let messages = request["messages"].as_array().unwrap().clone();
        let texts = messages
            .iter()
            .map(|message| message["content"].as_str().unwrap_or("").to_owned());
        texts.collect::<Vec<_>>().join("\n---\n")
    }

    pub(crate) async fn events(&self, id: &belljar_journal::RunId) -> Vec<RunEvent> {
        let journal = Journal::open(self.directory()).await.unwrap();
        read_events(&journal, id).await.unwrap().0
    }
}

/// The program whose hidden command evaluates expressions, where it was built beside this test.
fn evaluator() -> Option<PathBuf> {
    let mut path = std::env::current_exe().ok()?;
    path.pop();
    path.pop();
    Some(path.join("belljar")).filter(|path| path.exists())
}

pub(crate) async fn drive(live: LiveRun) -> Run {
    live.drive(&mut |_| ()).await.unwrap()
}

pub(crate) fn start(task: &str) -> Start {
    Start {
        task: task.into(),
        files: Vec::new(),
        model: "llamacpp/scripted".into(),
        dialect: Dialect::FencedCode,
        language: Language::English,
        prompts: None,
        budget: Budget::default(),
        context_window: 16_384,
        max_tokens: 1024,
        temperature: Some(0.0),
        review: false,
        tools: Vec::new(),
        packages: Vec::new(),
        versions: Vec::new(),
        granted: Vec::new(),
        approvals: Approvals::default(),
        branches: None,
        parent: None,
        environment: None,
        isolation: None,
        client: None,
    }
}

/// A reply that runs code.
pub(crate) fn code(code: &str) -> Scripted {
    Scripted::text(format!("```python\n{code}\n```"))
}

/// A reply that answers.
pub(crate) fn answer(text: &str) -> Scripted {
    Scripted::text(format!("FINAL: {text}"))
}

pub(crate) fn answer_of(run: &Run) -> &str {
    run.ending().unwrap().answer.as_deref().unwrap_or("")
}
