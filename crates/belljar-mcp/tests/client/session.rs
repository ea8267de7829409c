//! Code in a session calls a server's tools by the names that they are given.

use belljar_agent::{Given, Invocation};
use belljar_sandbox::protocol::{Event, ToolError};
use belljar_sandbox::{Cell, Engine, Environment, SessionOptions};

use crate::{Home, python, stdio, tool};

#[tokio::test]
async fn code_in_a_session_calls_tools() {
    let connection = Home::new().connect(stdio(&["names"])).await.unwrap();
    let tools = connection.tools();
    let environment = Environment::from_python(python().as_ref()).unwrap();
    let options = SessionOptions {
        tools: tools.iter().map(|tool| tool.granted.stub.clone()).collect(),
        ..SessionOptions::default()
    };
    let engine = Engine::builder(environment).build();
    let session = engine.session_with(options).await.unwrap();
    let code = "print(tools.server_python('hello'), tools.server_ToolError(text='there'))\n\
                print(sorted(name for name in dir(tools) if name.startswith('server_')))\n\
                print(issubclass(tools.ToolError, Exception))";
    let mut run = session.run(Cell {
        answers: true,
        ..Cell::from(code)
    });
    let mut printed = String::new();
    while let Some(event) = run.next().await {
        match event.unwrap() {
            Event::Called {
                call,
                tool: name,
                arguments,
            } => {
                let key = call.to_string();
                let given = tool(&connection, &name).perform(Invocation { arguments, key });
                let answer = match given.await {
                    Ok(Given::Value(value)) => Ok(value.into()),
                    Ok(Given::Kept { mime, .. }) => Err(ToolError(mime)),
                    Err(error) => Err(error),
                };
                session.answer(call, answer).await.unwrap();
            }
            Event::Outcome(outcome) => printed.clone_from(&outcome.stdout.text),
            _ => {}
        }
    }
    let expected = "hello there\n\
                    ['server_ToolError', 'server_answer', 'server_python', 'server_tools']\nTrue\n";
    assert_eq!(printed, expected);
}
