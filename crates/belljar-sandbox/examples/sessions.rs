//! Sessions in a Rust program: state, a failure, a checkpoint, a fork.
//!
//! `cargo run -p belljar-sandbox --example sessions`
#![allow(clippy::print_stdout, reason = "an example prints")]

use belljar_sandbox::protocol::Status;
use belljar_sandbox::{Engine, Environment};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Any Python of the host. `EnvironmentStore` has the ones with packages.
    let environment = Environment::from_python("/usr/bin/python3".as_ref())?;
    let engine = Engine::builder(environment).build();
    let session = engine.session().await?;

    // Variables persist from cell to cell.
    session.run("numbers = [1, 2, 4]").await?;
    let outcome = session.run("print(sum(numbers))").await?;
    println!("{}", outcome.stdout.text.trim_end());

    // An exception is an outcome, not an `Err`: the session lives on.
    let outcome = session.run("numbers[9]").await?;
    assert_eq!(outcome.status, Status::Failure);

    // Back to a checkpoint.
    session.checkpoint("before").await?;
    session.run("numbers.clear()").await?;
    session.restore("before").await?;

    // A fork starts with the variables of its parent, and changes only its own.
    let forks = session.fork(1).await?;
    forks[0].run("numbers.append(8)").await?;
    for session in [&session, &forks[0]] {
        let outcome = session.run("print(len(numbers))").await?;
        println!("{}", outcome.stdout.text.trim_end());
    }

    // Ends every session. So does the death of this program.
    engine.shutdown().await;
    Ok(())
}
