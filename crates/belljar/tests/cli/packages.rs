//! `# requires:` and `--packages`. The only index is a directory that the test makes.

use std::process::Command;

use belljar_sandbox::EnvironmentStore;

use crate::support::{BELLJAR, Ended, Scratch, bare};

const CODE: &str = "# requires: alpha-one\nimport alpha_one, beta_two\nprint('here')";

/// A directory of wheels, which is the only index, and a data directory.
pub(crate) struct Shop {
    pub(crate) scratch: Scratch,
    pub(crate) python: String,
}

impl Shop {
    pub(crate) fn new() -> Self {
        bare();
        let store = EnvironmentStore::open_default().unwrap();
        let python = store.load("bare").unwrap().python().display().to_string();
        let shop = Self {
            scratch: Scratch::new(),
            python,
        };
        std::fs::create_dir(shop.scratch.path("wheels")).unwrap();
        shop.run_python(include_str!("../../src/bench_packages.py"));
        shop
    }

    /// Runs code that writes into the directory of wheels.
    fn run_python(&self, code: &str) {
        let made = Command::new(&self.python)
            .args(["-I", "-c", code])
            .arg(self.scratch.path("wheels"))
            .status();
        assert!(made.unwrap().success());
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.prepare(arguments);
        command.args(["--python", &self.python]);
        command
    }

    /// The same with the Python of the data directory's environments.
    pub(crate) fn prepare(&self, arguments: &[&str]) -> Command {
        let mut command = self.scratch.prepare(BELLJAR);
        command
            .args(arguments)
            .env("BELLJAR_DATA_DIR", self.scratch.path("data"))
            .env("BELLJAR_RUNS_DIR", self.scratch.path("runs"))
            .env_remove("BELLJAR_MODEL")
            .env("UV_NO_INDEX", "1")
            .env("UV_FIND_LINKS", self.scratch.path("wheels"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        self.scratch
            .finish(self.command(arguments).spawn().unwrap())
    }
}

#[test]
fn what_code_requires_is_installed_where_the_policy_allows_it() {
    let shop = Shop::new();
    let denied = shop.run(&["exec", CODE]).exits_with(2);
    denied
        .says("`alpha-one` cannot be installed")
        .says("--packages");
    assert!(!shop.scratch.path("data/packages").exists());
    for policy in ["any", "alpha-one", "Alpha_One, other"] {
        let ended = shop.run(&["exec", "--packages", policy, CODE]);
        ended
            .exits_with(0)
            .prints("here\n")
            .says("[installed alpha-one 1.0, beta-two 1.0]");
    }
    let other = shop.run(&["exec", "--packages", "beta-two", CODE]);
    other.exits_with(2).says("`alpha-one` cannot be installed");
    let wrong = shop.run(&["exec", "--packages", "any", "# requires: -r file\n1"]);
    wrong.exits_with(2).says("is not a package requirement");
    let wrong = shop.run(&["exec", "--packages", "../x", "1"]);
    wrong.exits_with(2).says("is not a package requirement");
    let missing = shop.run(&["exec", "--packages", "any", "import yaml"]);
    missing.exits_with(1).says("# requires: pyyaml");
}

#[test]
fn the_repl_installs_what_a_cell_requires() {
    use std::io::Write as _;
    let shop = Shop::new();
    let mut child = shop
        .command(&["repl", "--packages", "any"])
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(b"x = 20\n# requires: gamma-three\nimport gamma_three; print(x + 22)\n")
        .unwrap();
    drop(stdin);
    let ended = shop.scratch.finish(child).exits_with(0);
    assert!(ended.stdout.contains("42"), "{ended:?}");
}

#[test]
fn no_configuration_of_uv_makes_it_build_a_package() {
    let shop = Shop::new();
    let mark = shop.scratch.path("mark");
    shop.run_python(&format!(
        "import io, sys, tarfile\n\
         backend = '''open('{}', 'w').write('ran')\n'''.encode()\n\
         project = b'[build-system]\\nrequires = []\\nbuild-backend = \"backend\"\\nbackend-path = [\".\"]\\n'\n\
         info = b'Metadata-Version: 2.1\\nName: evil\\nVersion: 1.0\\n'\n\
         with tarfile.open(sys.argv[1] + '/evil-1.0.tar.gz', 'w:gz') as archive:\n\
         \x20   for name, text in (('pyproject.toml', project), ('backend.py', backend), ('PKG-INFO', info)):\n\
         \x20       member = tarfile.TarInfo('evil-1.0/' + name)\n\
         \x20       member.size = len(text)\n\
         \x20       archive.addfile(member, io.BytesIO(text))\n",
        mark.display()
    ));
    let build = "[pip]\nno-binary = [\"evil\"]\nno-build-isolation = true\n";
    std::fs::create_dir_all(shop.scratch.path("config/uv")).unwrap();
    shop.scratch.write("config/uv/uv.toml", build);
    shop.scratch.write("uv.toml", build);
    let mut command = shop.command(&["exec", "--packages", "any", "# requires: evil\n1"]);
    command
        .env("XDG_CONFIG_HOME", shop.scratch.path("config"))
        .env("UV_CONFIG_FILE", shop.scratch.path("uv.toml"))
        .env("UV_NO_BINARY", "1")
        .env("UV_NO_BINARY_PACKAGE", "evil")
        .env("UV_NO_BUILD", "0");
    let ended = shop.scratch.finish(command.spawn().unwrap());
    ended.exits_with(2).says("only wheels are installed");
    assert!(!mark.exists(), "a package was built on the host");
    // uv itself, so configured, builds it: the test can fail.
    let uv = std::env::var_os("BELLJAR_UV").unwrap_or_else(|| "uv".into());
    let mut alone = Command::new(uv);
    alone
        .args([
            "pip",
            "install",
            "--only-binary",
            ":all:",
            "--no-index",
            "--target",
        ])
        .arg(shop.scratch.path("target"))
        .arg("--find-links")
        .arg(shop.scratch.path("wheels"))
        .args(["--python", &shop.python, "evil"])
        .current_dir(shop.scratch.path(""))
        .env("UV_CACHE_DIR", shop.scratch.path("cache"));
    assert!(!alone.output().unwrap().status.success());
    assert!(mark.exists(), "the control did not build it");
}

#[test]
fn a_missing_uv_is_told_with_what_to_do() {
    let shop = Shop::new();
    let mut command = shop.command(&["exec", "--packages", "any", CODE]);
    command.env("BELLJAR_UV", "/nowhere/uv");
    let ended = shop.scratch.finish(command.spawn().unwrap());
    ended.exits_with(2).says("pip install uv");
}

#[test]
fn packages_are_kept_where_the_settings_say() {
    let shop = Shop::new();
    let settings = shop.scratch.path("config.toml");
    let data = shop.scratch.path("elsewhere");
    std::fs::write(&settings, format!("data_dir = {data:?}\n")).unwrap();
    let mut command = shop.command(&["exec", "--packages", "any", CODE]);
    command
        .env_remove("BELLJAR_DATA_DIR")
        .env("BELLJAR_CONFIG", &settings);
    let ended = shop.scratch.finish(command.spawn().unwrap());
    ended.exits_with(0).prints("here\n");
    assert!(data.join("packages/layers").is_dir());
}
