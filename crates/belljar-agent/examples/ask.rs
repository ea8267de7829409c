//! A run of the agent in a Rust program. A scripted model stands in for a real one; give `Provider` the profile and
//! the name of yours.
//!
//! `cargo run -p belljar-agent --example ask`
#![allow(clippy::print_stdout, reason = "an example prints")]

use belljar_agent::{Agent, Approvals, Budget, Dialect, Profile, Provider, Start};
use belljar_sandbox::protocol::Language;
use belljar_sandbox::{Engine, Environment};
use belljar_test_model::{Scripted, ScriptedModel};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::start([
        Scripted::text("```python\nprint(sum(range(1, 101)))\n```"),
        Scripted::text("FINAL: The sum is 5050."),
    ])?;
    let mut profile = Profile::built_in("llamacpp").ok_or("no such provider")?;
    profile.base_url = model.base_url();
    let provider = Provider::new(profile, "scripted")?;

    let environment = Environment::from_python("/usr/bin/python3".as_ref())?;
    let engine = Engine::builder(environment).build();
    let directory = tempfile::tempdir()?;
    let agent = Agent::open(directory.path(), engine.clone(), provider, None).await?;
    let start = Start {
        task: "What is the sum of the numbers from 1 to 100?".into(),
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
    };
    let run = agent.start(start).await?.drive(&mut |_| ()).await?;
    let ending = run.ending().ok_or("the run did not end")?;
    println!("{}", ending.answer.as_deref().unwrap_or("no answer"));
    println!("{}", ending.reason.text(Language::English));
    for evidence in &ending.evidence {
        println!("{}", evidence.text(Language::English));
    }
    engine.shutdown().await;
    Ok(())
}
