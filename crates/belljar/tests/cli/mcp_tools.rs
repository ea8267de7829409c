//! Code of a run calls tools of an MCP server, and `belljar` is killed in the middle of it.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use belljar_test_model::{Scripted, ScriptedModel};

use crate::run::{belljar, code};
use crate::support::{BELLJAR, Scratch, bare};

const CALLS: usize = 1000;

struct Desk {
    scratch: Scratch,
    model: ScriptedModel,
}

impl Desk {
    fn new() -> Self {
        let scratch = Scratch::new();
        scratch.write("server.py", include_str!("mcp_tools.py"));
        let (server, notes) = (scratch.path("server.py"), scratch.path("notes"));
        let settings = format!(
            "[mcp.world]\ncommand = [\"python3\", \"{}\", \"{}\"]\ntrusted = true\n\
             [approvals.tools]\n\"world.mail\" = \"always\"\n",
            server.display(),
            notes.display()
        );
        scratch.write("config.toml", &settings);
        let model = ScriptedModel::react(|request| {
            if request.json().to_string().contains("total is") {
                return Scripted::text("FINAL: The total is 999000.");
            }
            code(
                "import asyncio\n\
                 async def one(n):\n    tool = tools.world_act if n % 10 else tools.world_mail\n    \
                 return (await tool(n=n))['value']\n\
                 got = await asyncio.gather(*[one(n) for n in range(1000)])\n\
                 assert got == [2 * n for n in range(1000)]\nprint('total is', sum(got))",
            )
        });
        Self {
            scratch,
            model: model.unwrap(),
        }
    }

    fn spawn(&self, arguments: &[&str]) -> Child {
        let url = self.model.base_url();
        self.scratch
            .prepare(BELLJAR)
            .env("BELLJAR_RUNS_DIR", self.scratch.path("runs"))
            .env("BELLJAR_CONFIG", self.scratch.path("config.toml"))
            .env("NO_COLOR", "1")
            .args(arguments)
            .args(["--base-url", &url, "--env", bare()])
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.scratch.path(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Kills it once the server has performed so many calls; soon after, on a busy machine.
    fn kill_after(&self, mut child: Child, calls: usize) {
        loop {
            let ended = child.try_wait().unwrap();
            if self.lines("notes.calls").len() >= calls {
                break;
            }
            assert_eq!(ended, None, "it ended before");
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        self.scratch.finish(child);
    }
}

/// A thousand calls at once, a hundred of which wait for a person; the program is killed twice in
/// the middle. Each effect is there once, and the cell ends with the right values.
#[test]
fn a_thousand_calls_survive_kills() {
    let desk = Desk::new();
    desk.kill_after(
        desk.spawn(&["run", "--model", "llamacpp/scripted", "Do it."]),
        300,
    );
    let listed = belljar(&desk.scratch, &["runs", "list"])
        .exits_with(0)
        .stdout;
    let id = listed.split_whitespace().next().unwrap();
    desk.kill_after(desk.spawn(&["runs", "resume", id]), 500);
    // Nobody is there: all but what needs a person is done.
    let waits = desk.scratch.finish(desk.spawn(&["runs", "resume", id]));
    let waits = waits.exits_with(3);
    assert_eq!(
        waits
            .stderr
            .matches("may the code call world.mail?")
            .count(),
        100
    );
    assert_eq!(desk.lines("notes").len(), CALLS - 100);
    let ends = desk.spawn(&["runs", "approve", id, "--only", "all", "--accept"]);
    let ended = desk.scratch.finish(ends).exits_with(0);
    ended.prints("The total is 999000.\n");
    let mut effects = desk.lines("notes");
    effects.sort_unstable();
    assert_eq!(effects.len(), CALLS);
    effects.dedup();
    assert_eq!(effects.len(), CALLS, "each effect once");
    let made = desk.lines("notes.calls").len();
    // Only what was under way when it was killed was asked for again.
    assert!((CALLS..=CALLS + 2 * 64).contains(&made), "{made}");
    let mails = desk.lines("notes.calls");
    let mails = mails.iter().filter(|call| call.starts_with("mail"));
    assert_eq!(mails.count(), 100, "what a person approved was done once");
}
