//! L15 to L19: packages whose authors mean harm. Their wheels are real, and made by the case.

use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use belljar_sandbox::{
    Error, Limits, PackageError, Packages, Requirement, Session, SessionOptions,
};
use serde_json::{Value, json};

use crate::harness::{Case, Severity, block_on, environment_canary};
use crate::support::{bare_environment, without_checkpoints};
use crate::wheels::{Shop, files_beneath, install};

fn with_packages(packages: Packages) -> SessionOptions {
    SessionOptions {
        packages,
        ..without_checkpoints(Limits::default())
    }
}

/// Runs a case on an engine whose only packages are those of a shop.
fn attack(
    severity: Severity,
    (id, attack, expectation): (&'static str, &'static str, &'static str),
    stock: impl FnOnce(&Shop),
    body: impl AsyncFnOnce(&Case, &Session, &Shop),
) {
    environment_canary();
    block_on(async {
        let shop = Shop::new();
        stock(&shop);
        let store = shop.store().layer_bytes(8 << 20);
        let builder = shop.builder(bare_environment(), Packages::Any);
        let builder = builder.package_store(store);
        let case = Case::begin_on(builder, id, severity, attack, expectation).await;
        let session = case.session_of(with_packages(Packages::Any)).await;
        body(&case, &session, &shop).await;
        assert_eq!(entries(&shop.path("data/packages/staging")), 0);
        case.end([session]).await;
    });
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

/// Refused by uv, or by what is looked at after it.
fn refused(result: Result<Vec<String>, Error>) -> String {
    match result {
        Err(Error::Packages(error)) => {
            let told = error.to_string();
            let hidden = |c: char| c.is_control() && c != '\n';
            assert!(!told.contains(hidden), "{told:?}");
            told
        }
        other => panic!("{other:?}"),
    }
}

/// All that is in the layers that sessions see.
fn in_layers(shop: &Shop) -> Vec<PathBuf> {
    let layers = shop.path("data/packages/layers");
    // Nobody lists them, its owner neither.
    let mode = |mode| std::fs::set_permissions(&layers, std::fs::Permissions::from_mode(mode));
    mode(0o700).unwrap();
    let found = files_beneath(&layers);
    mode(0o311).unwrap();
    found
}

/// Python that leaves a mark where it runs: in the shop if that is the host, in the workspace else.
fn mark(shop: &Shop) -> String {
    let mark = shop.path("mark");
    format!(
        "try: open('{}', 'w').write('ran')\nexcept OSError: open('/workspace/mark', 'w').write('ran')\n",
        mark.display()
    )
}

#[test]
fn l15_paths() {
    let paths = |shop: &Shop| {
        let outside = shop.path("escaped").display().to_string();
        [
            ("climbs", "../../../../escaped".to_owned()),
            ("climbs_far", format!("{}{outside}", "../".repeat(30))),
            ("absolute", outside.clone()),
            ("slashes", format!("//{outside}")),
            ("within", "a/./b/../../../../../escaped".to_owned()),
            ("backslashes", r"..\..\..\..\escaped".to_owned()),
            ("drive", r"C:\escaped".to_owned()),
            (
                "by_data",
                "by_data-1.0.data/data/../../../../escaped".to_owned(),
            ),
            (
                "by_scripts",
                "by_scripts-1.0.data/scripts/../../../escaped".to_owned(),
            ),
            (
                "by_purelib",
                format!("by_purelib-1.0.data/purelib/{outside}"),
            ),
            (
                "by_headers",
                "by_headers-1.0.data/headers/../../../../../escaped".to_owned(),
            ),
            (
                "by_name",
                "../by_name-1.0.data/data/../../escaped".to_owned(),
            ),
        ]
    };
    attack(
        Severity::Escape,
        (
            "L15",
            "wheels whose files have paths that climb, are absolute, have back slashes, or do so by data, scripts, headers and library directories (12 ways)",
            "each is refused or has no such file; nothing is written outside of the layer",
        ),
        |shop| {
            for (name, path) in paths(shop) {
                let files = json!({path: "x", format!("{name}.py"): "x = 1\n"});
                shop.wheel(name, json!({"files": files}));
            }
        },
        async |case, session, shop| {
            for (name, _) in paths(shop) {
                match install(session, name).await {
                    Ok(_) => drop(case.printed(session, format!("import {name}")).await),
                    Err(error) => drop(refused(Err(error))),
                }
                let all = files_beneath(shop.path("data").parent().unwrap());
                let own = ["data/packages/layers", "data/packages/uv"].map(|path| shop.path(path));
                let escaped = |path: &&PathBuf| {
                    path.to_string_lossy().ends_with("escaped")
                        && !own.iter().any(|place| path.starts_with(place))
                };
                assert_eq!(all.iter().find(escaped), None, "{name}");
            }
        },
    );
}

#[test]
fn l15a_kinds_and_modes() {
    attack(
        Severity::InternalEsc,
        (
            "L15a",
            "wheels with links to the host, devices, pipes and sockets by their mode, and files with the bits for set-user-id, set-group-id and everyone",
            "a layer holds plain files and directories, none of which has such a bit or can be changed by a session; no link leads anywhere",
        ),
        |shop| {
            let secret = shop.path("secret");
            std::fs::write(&secret, "of the host").unwrap();
            let links =
                json!({"linked/secret.txt": secret, "linked/all": "/", "linked/up": "../../.."});
            shop.wheel(
                "linked",
                json!({"files": {"linked/__init__.py": ""}, "links": links}),
            );
            let kinds: Value = [0o020_666, 0o060_666, 0o010_666, 0o140_666]
                .map(|mode| json!([format!("kinds/{mode:o}"), "x", mode]))
                .into_iter()
                .collect();
            shop.wheel(
                "kinds",
                json!({"files": {"kinds/__init__.py": ""}, "entries": kinds}),
            );
            let modes = json!([
                ["modes/root", "#!/bin/sh\n", 0o106_755],
                ["modes/all", "#!/bin/sh\n", 0o107_777],
                ["modes-1.0.data/scripts/root", "#!/bin/sh\n", 0o106_755],
                ["modes/none", "x", 0o100_000],
            ]);
            shop.wheel(
                "modes",
                json!({"files": {"modes/__init__.py": ""}, "entries": modes}),
            );
        },
        async |case, session, shop| {
            for name in ["linked", "kinds", "modes"] {
                match install(session, name).await {
                    Ok(_) => drop(case.printed(session, format!("import {name}")).await),
                    Err(error) => drop(refused(Err(error))),
                }
            }
            let found = in_layers(shop);
            assert!(!found.is_empty());
            for path in found {
                let meta = path.symlink_metadata().unwrap();
                assert!(meta.is_file() && !meta.file_type().is_fifo(), "{path:?}");
                let mode = meta.permissions().mode();
                assert_eq!(mode & 0o7022, 0, "{path:?} {mode:o}");
                let text = std::fs::read(&path).unwrap();
                assert!(!text.starts_with(b"of the host"), "{path:?}");
            }
            let code = r"
import os, stat, sys
odd = []
for place in [p for p in sys.path if p.startswith('/opt/packages')]:
    for at, directories, files in os.walk(place):
        for name in directories + files:
            path = os.path.join(at, name)
            mode = os.lstat(path).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or mode & 0o7022 or os.access(path, os.W_OK): odd.append(path)
print(odd)
";
            assert_eq!(case.printed(session, code).await, "[]\n");
        },
    );
}

#[test]
fn heavy_l16_bombs() {
    attack(
        Severity::HostDos,
        (
            "L16",
            "half a megabyte that is half a gigabyte; sizes that are false; two hundred names for the same bytes; a little too much",
            "stopped on its way or refused; what it wrote is removed; the host keeps its memory and disk",
        ),
        |shop| {
            let init = |name: &str| json!({format!("{name}/__init__.py"): ""});
            for (name, megabytes) in [("bomb", 500), ("large", 9)] {
                let zeros = json!({format!("{name}/zeros"): megabytes});
                shop.wheel(name, json!({"zeros": zeros, "files": init(name)}));
            }
            let zeros = json!({"liar/zeros": 100});
            shop.wheel(
                "liar",
                json!({"zeros": zeros, "files": init("liar"), "shrink": "liar/zeros"}),
            );
            let zeros = json!({"overlaps/zeros": 5});
            shop.wheel(
                "overlaps",
                json!({"zeros": zeros, "files": init("overlaps"), "overlap": "overlaps/zeros"}),
            );
        },
        async |case, session, shop| {
            for name in ["bomb", "large", "liar", "overlaps"] {
                refused(install(session, name).await);
            }
            assert_eq!(in_layers(shop), Vec::<PathBuf>::new());
            let all = files_beneath(&shop.path("data"));
            let bytes: u64 = all.iter().map(|path| path.metadata().unwrap().len()).sum();
            assert!(bytes < 400 << 20, "{bytes}");
            assert_eq!(case.printed(session, "print(1)").await, "1\n");
        },
    );
}

#[test]
fn l17_code_that_runs_by_itself() {
    attack(
        Severity::Escape,
        (
            "L17",
            "a wheel with .pth files, sitecustomize, conftest, modules of the standard library's and the driver's names, and scripts called uv, pip and sh",
            "nothing of it runs on the host, nor in the session before it is imported; imports find what they found before",
        ),
        |shop| {
            let mark = mark(shop);
            let line = format!("import os; exec({mark:?})\n");
            let mut files = serde_json::Map::new();
            for name in [
                "sitecustomize.py",
                "usercustomize.py",
                "conftest.py",
                "json.py",
                "os.py",
                "site.py",
                "re.py",
                "encodings/__init__.py",
                "encodings/utf_8.py",
                "importlib/__init__.py",
                "belljar_guest/__init__.py",
                "belljar_guest/session.py",
                "builtins.py",
                "_bootstrap.py",
            ] {
                files.insert(name.into(), json!(mark));
            }
            for (name, text) in [
                ("evil.pth", line.as_str()),
                ("zzz-nspkg.pth", line.as_str()),
                ("quiet.py", "x = 1\n"),
                ("quiet-1.0.data/scripts/uv", "#!/bin/sh\ntouch mark\n"),
                (
                    "quiet-1.0.data/scripts/pip",
                    "#!python\nopen('mark', 'w')\n",
                ),
                ("quiet-1.0.data/data/bin/sh", "#!/bin/sh\ntouch mark\n"),
                (
                    "quiet-1.0.dist-info/entry_points.txt",
                    "[console_scripts]\nuv = quiet:x\nls = quiet:x\n",
                ),
            ] {
                files.insert(name.into(), json!(text));
            }
            shop.wheel("quiet", json!({"files": files}));
            shop.wheel("second", json!({"files": {"second.py": ""}}));
        },
        async |case, session, shop| {
            install(session, "quiet").await.unwrap();
            // uv has looked at Python again, with a layer there.
            install(session, "second").await.unwrap();
            let code = r"
import importlib, json, os, re, shutil, site, subprocess, sys
import quiet, second
shadowed = [name for name in ('json', 'os', 're', 'site', 'encodings', 'importlib', 'belljar_guest')
            if '/opt/packages' in str(getattr(sys.modules.get(name), '__file__', ''))]
print(quiet.x, shadowed, os.path.exists('/workspace/mark'), json.loads('[1]'),
      [name for name in ('uv', 'sh', 'ls', 'pip') if '/opt/packages' in str(shutil.which(name))])
print(subprocess.run(['sh', '-c', 'echo plain'], capture_output=True, text=True).stdout.strip(), os.path.exists('mark'))
";
            assert_eq!(
                case.printed(session, code).await,
                "1 [] False [1] []\nplain False\n"
            );
            let other = case.session_of(with_packages(Packages::Any)).await;
            assert_eq!(
                case.printed(&other, "import json, os; print(os.listdir())")
                    .await,
                "[]\n"
            );
            other.close().await.unwrap();
            assert!(
                !shop.path("mark").exists(),
                "code of a package ran on the host"
            );
        },
    );
}

#[test]
fn l17a_sources_and_places() {
    attack(
        Severity::Escape,
        (
            "L17a",
            "source distributions with setup.py, with a build backend of their own, newer than the wheel, and as a dependency; dependencies that name a directory, a repository or an address",
            "never built and never fetched; the wheel is taken where there is one",
        ),
        |shop| {
            let mark = mark(shop);
            shop.wheel(
                "evil",
                json!({"version": "2.0", "source": true, "files": {"setup.py": mark}}),
            );
            let project =
                "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n";
            shop.wheel(
                "backed",
                json!({"source": true, "files": {"pyproject.toml": project, "backend.py": mark}}),
            );
            shop.wheel("both", json!({"files": {"both.py": ""}}));
            shop.wheel(
                "both",
                json!({"version": "2.0", "source": true, "files": {"setup.py": mark}}),
            );
            shop.wheel(
                "innocent",
                json!({"files": {"innocent.py": ""}, "requires": ["evil"]}),
            );
            let source = shop.path("source");
            std::fs::create_dir(&source).unwrap();
            std::fs::write(source.join("setup.py"), mark).unwrap();
            let source = source.display();
            for (number, place) in [
                format!("evil @ file://{source}"),
                format!("evil @ git+file://{source}"),
                "evil @ http://127.0.0.1:1/evil-1.0-py3-none-any.whl".to_owned(),
            ]
            .into_iter()
            .enumerate()
            {
                let name = format!("carrier_{number}");
                shop.wheel(
                    &name,
                    json!({"requires": [place], "files": {format!("{name}.py"): ""}}),
                );
            }
        },
        async |_, session, shop| {
            for name in [
                "evil",
                "backed",
                "innocent",
                "both>=2",
                "carrier-0",
                "carrier-1",
                "carrier-2",
            ] {
                refused(install(session, name).await);
            }
            assert_eq!(install(session, "both").await.unwrap(), ["both==1.0"]);
            assert!(
                !shop.path("mark").exists(),
                "code of a package ran on the host"
            );
        },
    );
}

#[test]
fn l18_false_metadata() {
    attack(
        Severity::Integrity,
        (
            "L18",
            "a wheel with the metadata of another package: in a second directory, by its library directory, under a false name or version; a RECORD that is empty, false, or lists files of the host",
            "refused, or taken for what it is: no package passes for another, and what RECORD lists is not touched",
        ),
        |shop| {
            let of_victim = "Metadata-Version: 2.1\nName: victim\nVersion: 99.0\n";
            let wheel = |name: &str, path: String| {
                let files = json!({format!("{name}.py"): "", path: of_victim});
                shop.wheel(name, json!({"files": files}));
            };
            wheel("beside", "victim-99.0.dist-info/METADATA".into());
            wheel(
                "by_purelib",
                "by_purelib-1.0.data/purelib/victim-99.0.dist-info/METADATA".into(),
            );
            wheel(
                "by_platlib",
                "by_platlib-1.0.data/platlib/victim-99.0.dist-info/METADATA".into(),
            );
            wheel(
                "by_data",
                "by_data-1.0.data/data/victim-99.0.dist-info/METADATA".into(),
            );
            wheel(
                "twice",
                "twice-1.0.data/purelib/twice-99.0.dist-info/METADATA".into(),
            );
            shop.wheel(
                "claims",
                json!({"claims": "victim", "files": {"claims.py": ""}}),
            );
            shop.wheel(
                "named",
                json!({"info": "victim-1.0.dist-info", "files": {"named.py": ""}}),
            );
            shop.wheel("victim", json!({"files": {"victim.py": "x = 1\n"}}));
            let host = shop.path("of-the-host");
            std::fs::write(&host, "kept").unwrap();
            let record = format!(
                "false.py,sha256=AAAA,3\n{},,\n../../../../etc/passwd,,\n",
                host.display()
            );
            shop.wheel(
                "falsely",
                json!({"record": record, "files": {"falsely.py": "x = 2\n"}}),
            );
            shop.wheel(
                "empty",
                json!({"record": "", "files": {"empty.py": "x = 3\n"}}),
            );
            shop.wheel(
                "dated",
                json!({"info": "dated-2.0.dist-info", "files": {"dated.py": "x = 4\n"}}),
            );
        },
        async |case, session, shop| {
            for name in [
                "beside",
                "by_purelib",
                "by_platlib",
                "by_data",
                "twice",
                "claims",
                "named",
            ] {
                let told = refused(install(session, name).await);
                if name.starts_with("by_") {
                    assert!(told.contains("victim-99.0.dist-info"), "{told}");
                }
            }
            for (name, x) in [("falsely", 2), ("empty", 3), ("dated", 4)] {
                // To refuse it is good, too.
                if let Ok(installed) = install(session, name).await {
                    assert_eq!(installed, [format!("{name}==1.0")]);
                    let code = format!("import {name}; print({name}.x)");
                    assert_eq!(case.printed(session, code).await, format!("{x}\n"));
                }
            }
            assert_eq!(std::fs::read(shop.path("of-the-host")).unwrap(), b"kept");
            // Nobody has passed for it.
            assert_eq!(install(session, "victim").await.unwrap(), ["victim==1.0"]);
            assert_eq!(
                case.printed(session, "import victim; print(victim.x)")
                    .await,
                "1\n"
            );
        },
    );
}

#[test]
fn l18a_names_of_files() {
    attack(
        Severity::Integrity,
        (
            "L18a",
            "wheels with names that differ in case alone, that come twice, that hold line ends and commands to a terminal, that are too long or too deep",
            "each name is its own file; of entries with one name one is installed, whole; the others are refused, in words without commands",
        ),
        |shop| {
            let cased = json!({"cased/__init__.py": "", "cased/Mod.py": "x = 1", "cased/mod.py": "x = 2", "CASED/mod.py": "x = 3"});
            shop.wheel("cased", json!({"files": cased}));
            let twice = json!([
                ["twice.py", "x = 1", 0o100_644],
                ["twice.py", "x = 2", 0o100_644],
                ["twice.py", "x = 3", 0o100_644]
            ]);
            shop.wheel("twice", json!({"entries": twice}));
            shop.wheel(
                "lines",
                json!({"files": {"lines/new\nline\u{1b}[31m.py": "", "lines.py": ""}}),
            );
            shop.wheel(
                "long",
                json!({"files": {format!("long/{}.py", "n".repeat(300)): "", "long.py": ""}}),
            );
            shop.wheel(
                "deep",
                json!({"files": {format!("{}x.py", "d/".repeat(3000)): "", "deep.py": ""}}),
            );
        },
        async |case, session, _| {
            install(session, "cased").await.unwrap();
            let code = "import cased.Mod, cased.mod, CASED.mod\nprint(cased.Mod.x, cased.mod.x, CASED.mod.x)";
            assert_eq!(case.printed(session, code).await, "1 2 3\n");
            for name in ["lines", "long", "deep"] {
                refused(install(session, name).await);
            }
            // Which one is for uv to say; the layer is named by what it holds, so all sessions with it have the same.
            let mut seen = BTreeSet::new();
            for _ in 0..2 {
                let fresh = case.session_of(with_packages(Packages::Any)).await;
                install(&fresh, "twice").await.unwrap();
                let code = "import twice; print(twice.x)";
                seen.insert(case.printed(&fresh, code).await);
                fresh.close().await.unwrap();
            }
            assert_eq!(seen.len(), 1, "{seen:?}");
            assert!(["1\n", "2\n", "3\n"].contains(&seen.pop_first().unwrap().as_str()));
        },
    );
}

#[test]
fn l19_names_that_look_alike() {
    attack(
        Severity::Escape,
        (
            "L19",
            "a session that may install `requests` asks for reqeusts, request, requests2, other letters that look the same, and for requests from another place",
            "denied or not a requirement; `Requests` in another spelling is the same package",
        ),
        |shop| {
            for name in [
                "requests",
                "reqeusts",
                "request",
                "requests2",
                "python_requests",
            ] {
                shop.wheel(name, json!({"files": {format!("{name}.py"): "x = 1\n"}}));
            }
        },
        async |case, _, shop| {
            let policy = Packages::allow(["requests"]);
            let session = case.session_of(with_packages(policy)).await;
            for name in [
                "reqeusts",
                "request",
                "requests2",
                "python-requests",
                "python_requests",
            ] {
                let error = install(&session, name).await.unwrap_err();
                assert!(
                    matches!(error, Error::Packages(PackageError::Denied(_))),
                    "{name}: {error}"
                );
            }
            let place = format!("requests @ file://{}", shop.path("wheels").display());
            for text in [
                "r\u{435}quests",
                "request\u{455}",
                "\u{ff52}equests",
                "requests\u{200b}",
                "requ\u{301}ests",
                place.as_str(),
                "--index-url=http://127.0.0.1:1",
                "-r /etc/passwd",
                "./requests",
                "requests.whl/../x",
                "requests; os_name == 'x' or 1",
                "requests\nreqeusts",
                "requests==1.0 --hash=x",
                "",
            ] {
                let parsed = text.parse::<Requirement>();
                if let Ok(requirement) = parsed {
                    let error = session.install(&[requirement]).await.unwrap_err();
                    assert!(matches!(error, Error::Packages(_)), "{text:?}: {error}");
                }
            }
            assert_eq!(
                install(&session, "Requests").await.unwrap(),
                ["requests==1.0"]
            );
            let code = "import importlib.util as u; print([n for n in ('requests', 'reqeusts', 'request', 'requests2') if u.find_spec(n)])";
            assert_eq!(case.printed(&session, code).await, "['requests']\n");
            session.close().await.unwrap();
        },
    );
}
