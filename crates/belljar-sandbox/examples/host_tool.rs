//! Code in a session calls a function of this program.
//!
//! `cargo run -p belljar-sandbox --example host_tool`
#![allow(clippy::print_stdout, reason = "an example prints")]

use belljar_sandbox::protocol::{Event, ToolError, ToolStub};
use belljar_sandbox::{Cell, Engine, Environment, SessionOptions};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let price = ToolStub {
        name: "price".into(),
        description: "The price of a product.".into(),
        parameters: json!({
            "type": "object",
            "properties": {"product": {"type": "string"}},
            "required": ["product"],
        }),
        result: Some(json!({"type": "number"})),
    };
    let environment = Environment::from_python("/usr/bin/python3".as_ref())?;
    let engine = Engine::builder(environment).build();
    let options = SessionOptions {
        tools: vec![price],
        ..SessionOptions::default()
    };
    let session = engine.session_with(options).await?;
    let code = "print(sum(tools.price(name) for name in ['tea', 'coffee']))";
    let mut cell = session.run(Cell {
        answers: true,
        ..Cell::from(code)
    });
    while let Some(event) = cell.next().await {
        match event? {
            Event::Called {
                call, arguments, ..
            } => {
                let answer = match arguments["product"].as_str() {
                    Some("tea") => Ok(json!(2.5).into()),
                    Some("coffee") => Ok(json!(3.5).into()),
                    _ => Err(ToolError("no such product".into())),
                };
                session.answer(call, answer).await?;
            }
            Event::Output { text, .. } => print!("{text}"),
            _ => {}
        }
    }
    engine.shutdown().await;
    Ok(())
}
