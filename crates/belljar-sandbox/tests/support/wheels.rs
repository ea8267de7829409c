//! Packages that tests make, and a store that has no others.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::Command;

use belljar_sandbox::{
    Engine, EngineBuilder, Environment, Error, LockedPackage, PackageStore, Packages, Requirement,
    Session,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{bare_environment, builder};

/// A directory with wheels, which is the only index, and a store.
pub(crate) struct Shop {
    root: TempDir,
}

impl Shop {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("wheels")).unwrap();
        Self { root }
    }

    /// A shop with three wheels that depend on each other, of some hundred files.
    pub(crate) fn with_three() -> Self {
        let shop = Self::new();
        let module = "value = 1\n".repeat(400);
        let files = |name: &str| -> Value {
            let mut files: serde_json::Map<String, Value> = (0..60)
                .map(|number| (format!("{name}/m{number}.py"), json!(module)))
                .collect();
            files.insert(
                format!("{name}/__init__.py"),
                json!(format!("name = '{name}'\n")),
            );
            Value::Object(files)
        };
        shop.wheel(
            "alpha_one",
            json!({"files": files("alpha_one"), "requires": ["beta-two>=1"]}),
        );
        shop.wheel("beta_two", json!({"files": files("beta_two")}));
        shop.wheel("gamma_three", json!({"files": files("gamma_three")}));
        shop
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Adds a wheel of version 1.0, unless the rest says otherwise.
    pub(crate) fn wheel(&self, name: &str, rest: Value) {
        let mut spec = json!({"name": name, "version": "1.0", "out": self.path("wheels")});
        let Value::Object(rest) = rest else {
            panic!("{rest}")
        };
        spec.as_object_mut().unwrap().extend(rest);
        let file = self.path("spec.json");
        std::fs::write(&file, spec.to_string()).unwrap();
        let made = Command::new(bare_environment().python())
            .args(["-I", "-c", include_str!("wheels.py")])
            .arg(file)
            .status();
        assert!(made.unwrap().success(), "{name}");
    }

    pub(crate) fn store(&self) -> PackageStore {
        PackageStore::open(self.path("data")).indexes([self.path("wheels").display().to_string()])
    }

    pub(crate) fn builder(&self, environment: Environment, policy: Packages) -> EngineBuilder {
        builder(environment)
            .packages(policy)
            .package_store(self.store())
    }

    pub(crate) fn engine(&self) -> Engine {
        self.builder(bare_environment(), Packages::Any).build()
    }

    pub(crate) async fn session(&self) -> Session {
        self.engine().session().await.unwrap()
    }

    /// How many layers there are.
    pub(crate) fn layers(&self) -> usize {
        std::fs::read_dir(self.path("data/packages/records"))
            .unwrap()
            .count()
    }
}

pub(crate) async fn install(session: &Session, list: &str) -> Result<Vec<String>, Error> {
    let installed = session.install(&Requirement::list(list).unwrap()).await?;
    let name = |package: LockedPackage| format!("{}=={}", package.name, package.version);
    Ok(installed.into_iter().map(name).collect())
}

/// All files beneath a directory.
pub(crate) fn files_beneath(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_beneath(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}
