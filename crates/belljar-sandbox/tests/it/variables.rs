//! Environment variables and secrets of sessions and cells.

use std::collections::BTreeMap;

use belljar_sandbox::protocol::Event;
use belljar_sandbox::{
    Cell, Checkpoints, Command, Error, OutputStream, SecretGrant, Secrets, Session, SessionOptions,
    VariableError, Variables,
};

use crate::support::{bare_environment, data_engine, engine, good, plain_builder, printed};

const TOKEN: &str = "tok-5d41402abc4b2a76";

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn variables(pairs: &[(&str, &str)]) -> Variables {
    Variables::new(map(pairs)).unwrap()
}

fn options() -> SessionOptions {
    SessionOptions {
        checkpoints: Checkpoints::Off,
        variables: variables(&[("PLACE", "north"), ("EMPTY", "")]),
        secrets: Secrets::new(map(&[("TOKEN", TOKEN)])).unwrap(),
        ..SessionOptions::default()
    }
}

async fn session() -> Session {
    engine().session_with(options()).await.unwrap()
}

async fn command(session: &Session, line: &str) -> String {
    let command = session.spawn(Command::shell(line)).await.unwrap();
    command.wait().await;
    let (bytes, _) = command.kept_output(OutputStream::Stdout);
    String::from_utf8(bytes).unwrap()
}

const HAS_TOKEN: &str =
    "import os, hashlib; print(hashlib.md5(os.environ.get('TOKEN', '').encode()).hexdigest()[:8])";

/// The digest shows that code has the value, which is not shown.
async fn has_token(session: &Session) -> bool {
    let digest = printed(session, HAS_TOKEN).await;
    match digest.trim() {
        "d41d8cd9" => false,
        digest => {
            assert_eq!(digest, "2497a293");
            true
        }
    }
}

/// Cells, their child processes and commands have them; what a cell changes stays changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_its_variables() {
    let session = session().await;
    assert_eq!(command(&session, "echo $PLACE").await, "north\n");
    let code =
        "import os; print(os.environ['PLACE'], repr(os.environ['EMPTY']), os.getenv('PLACE'))";
    assert_eq!(printed(&session, code).await, "north '' north\n");
    let child = "import subprocess; print(subprocess.run('echo $PLACE', shell=True, capture_output=True, text=True).stdout)";
    assert_eq!(printed(&session, child).await, "north\n\n");
    assert_eq!(printed(&session, "!echo $PLACE").await, "north\n");
    good(
        &session,
        "os.environ['PLACE'] = 'south'; del os.environ['EMPTY']",
    )
    .await;
    assert_eq!(
        printed(
            &session,
            "print(os.environ['PLACE'], 'EMPTY' in os.environ)"
        )
        .await,
        "south False\n"
    );
    // Another one of the same engine knows nothing of them.
    let other = engine().session().await.unwrap();
    assert_eq!(
        printed(&other, "import os; print('PLACE' in os.environ)").await,
        "False\n"
    );
}

/// Those of a cell end with it, however it ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_cell_has_variables_of_its_own() {
    let session = session().await;
    let cell = |code: &str| Cell {
        variables: variables(&[("PLACE", "west"), ("ONCE", "1")]),
        ..Cell::from(code)
    };
    let code = "import os; print(os.environ['PLACE'], os.environ['ONCE'], flush=True); os.system('echo $ONCE')";
    let outcome = session.run(cell(code)).await.unwrap();
    assert_eq!(outcome.stdout.text, "west 1\n1\n");
    for code in [
        "1 / 0",
        "raise SystemExit",
        "os.environ.clear()",
        "del os.environ['PLACE']",
    ] {
        session.run(cell(code)).await.unwrap();
        let after = "import os; print(os.environ.get('PLACE'), os.environ.get('ONCE'), os.popen('echo $ONCE').read())";
        assert_eq!(printed(&session, after).await, "north None \n\n", "{code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_name_is_a_variable_or_a_secret() {
    let both = SessionOptions {
        variables: variables(&[("TOKEN", "x")]),
        ..options()
    };
    let refused = engine().session_with(both).await;
    assert!(matches!(refused, Err(Error::Variable(VariableError::Both(name))) if name == "TOKEN"));
}

/// All that a cell and a command send, live and at the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_used_and_never_shown() {
    let engine = data_engine();
    let session = engine.session_with(options()).await.unwrap();
    assert!(has_token(&session).await);
    let code = "import os, sys\ntoken = os.environ['TOKEN']\nlines = [token, {'a': token}]\n\
                print('out', token)\nprint('err', token, file=sys.stderr)\n\
                import pandas as pd\ndisplay(pd.DataFrame({'t': [token]}))\n\
                def f(**names): raise ValueError(f'cannot use {token}')\nf(a=token)";
    let mut run = session.run(code);
    let mut seen = String::new();
    while let Some(event) = run.next().await {
        let event = event.unwrap();
        seen += &serde_json::to_string(&event).unwrap();
        if let Event::Outcome(outcome) = event {
            assert_eq!(outcome.stdout.text, "out [secret TOKEN]\n");
            assert_eq!(outcome.stderr.text, "err [secret TOKEN]\n");
            let exception = outcome.exception.unwrap();
            assert_eq!(exception.value, "cannot use [secret TOKEN]");
            assert!(
                outcome.displays[0]
                    .text()
                    .unwrap()
                    .contains("[secret TOKEN]")
            );
        }
    }
    assert!(!seen.contains(TOKEN), "{seen}");
    let value = good(&session, "token").await;
    assert_eq!(value.displays[0].text(), Some("'[secret TOKEN]'"));
    let names = format!("{:?}", session.manifest().await.unwrap());
    assert!(
        names.contains("[secret TOKEN]") && !names.contains(TOKEN),
        "{names}"
    );
    assert_eq!(command(&session, "echo $TOKEN").await, "[secret TOKEN]\n");
    assert!(!format!("{session:?} {:?}", options()).contains(TOKEN));
}

/// A fork gets what is granted. What its memory holds is not shown either.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_has_the_granted_secrets() {
    let session = session().await;
    good(&session, "import os; copy = os.environ['TOKEN']").await;
    let only = SecretGrant::Only(vec!["TOKEN".into()]);
    for (grant, has) in [
        (SecretGrant::None, false),
        (only, true),
        (SecretGrant::All, true),
    ] {
        let fork = session.fork_with(1, grant.clone()).await.unwrap().remove(0);
        assert_eq!(has_token(&fork).await, has, "{grant:?}");
        assert_eq!(
            command(&fork, "echo $TOKEN $PLACE")
                .await
                .contains("secret"),
            has,
            "{grant:?}"
        );
        assert_eq!(
            printed(&fork, "print(copy, os.environ['PLACE'])").await,
            "[secret TOKEN] north\n"
        );
        // Nor does a fork of the fork get more.
        let again = fork.fork_with(1, SecretGrant::All).await.unwrap().remove(0);
        assert_eq!(has_token(&again).await, has, "{grant:?}");
    }
    let unknown = SecretGrant::Only(vec!["OTHER".into()]);
    let refused = session.fork_with(1, unknown).await;
    assert!(matches!(
        refused,
        Err(Error::Variable(VariableError::Unknown(_)))
    ));
    // A fork of a session that has run no cell has never had it.
    let fresh = self::session().await;
    let fork = fresh.fork(1).await.unwrap().remove(0);
    assert!(!has_token(&fork).await);
    assert!(has_token(&fresh).await);
}

/// A checkpoint from before the first cell lacks them, and a new process does.
#[tokio::test(flavor = "multi_thread")]
async fn restored_and_woken_sessions_have_them_again() {
    let engine = plain_builder(bare_environment()).build();
    let session = engine.session_with(options()).await.unwrap();
    session.checkpoint("start").await.unwrap();
    assert!(has_token(&session).await);
    session.restore("start").await.unwrap();
    assert!(has_token(&session).await);
    good(
        &session,
        "token = os.environ['TOKEN']; holder = [token]; other = 1; place = os.environ['PLACE']",
    )
    .await;
    session.hibernate().await.unwrap();
    let outcome = session
        .run("import os; print(other, place, os.environ['PLACE'], 'token' in dir())")
        .await
        .unwrap();
    assert_eq!(outcome.stdout.text, "1 north north False\n", "{outcome:#?}");
    let notes = outcome.notes.join("\n");
    for name in ["token", "holder"] {
        let line = format!(
            "the variable `{name}` is gone: not saved: ValueError: it holds the secret `TOKEN`"
        );
        assert!(notes.contains(&line), "{notes}");
    }
    assert!(has_token(&session).await);
}
