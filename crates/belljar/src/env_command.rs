//! `belljar env`: the environments that sessions start from.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use belljar_sandbox::protocol::texts::EnvTexts;
use belljar_sandbox::{
    BuildStep, Environment, EnvironmentError, EnvironmentSpec, EnvironmentStore,
};
use clap::Subcommand;

use crate::container_args::ContainerArgs;
use crate::{error_texts, start, table, words};

/// Create, extend, list, show and remove environments: named, locked sets of packages for one Python.
#[derive(Debug, Subcommand)]
pub(crate) enum EnvCommand {
    /// Build an environment with uv, which downloads uncached packages
    ///
    /// Versions are resolved once and locked with their hashes. `belljar env add` builds an environment again,
    /// with more packages.
    ///
    /// The environment `default` has common data libraries and a Chinese font, plus the given packages. Any
    /// other environment has the given packages, and those of the environment of `--from`.
    #[command(after_help = "\
Examples:
  belljar env create
  belljar env create math sympy 'numpy>=2' --preload sympy
  belljar env create reports --from default polars
  belljar env create mine --requirements requirements.txt --python /usr/bin/python3.12
  belljar env create analysis --image python:3.12")]
    Create {
        /// Name: a-z, 0-9, '.', '_' and '-', at most 64 characters
        #[arg(default_value = EnvironmentSpec::DEFAULT_NAME)]
        name: String,
        /// Interpreter or venv directory to build on, Python 3.10 or later; with `--image`, a path in it [default:
        /// newest in PATH]
        #[arg(long, value_name = "PATH")]
        python: Option<PathBuf>,
        /// Packages, in pip's format: polars, 'numpy>=2'
        #[arg(value_name = "PACKAGE")]
        packages: Vec<String>,
        /// Environment whose packages and preload list come first
        #[arg(long, value_name = "NAME")]
        from: Option<String>,
        /// File with one package per line
        #[arg(long, value_name = "FILE")]
        requirements: Option<PathBuf>,
        /// Module to preload (repeatable); for `default`, in addition to its own
        #[arg(long, value_name = "MODULE")]
        preload: Vec<String>,
        /// Container image with Python 3.10 or later: each session is a container of it. Nothing is built; the
        /// environment keeps the image's digest
        #[arg(long, value_name = "IMAGE", conflicts_with_all = ["packages", "from", "requirements", "preload"])]
        image: Option<String>,
        #[command(flatten)]
        container: ContainerArgs,
    },
    /// Build an environment again with more packages
    ///
    /// All versions are resolved again. Sessions that start after that have the new packages; stop
    /// services that use the environment first.
    #[command(after_help = "\
Example:
  belljar env add default polars duckdb")]
    Add {
        /// The environment
        name: String,
        /// Packages, in pip's format: polars, 'numpy>=2'
        #[arg(value_name = "PACKAGE", required = true)]
        packages: Vec<String>,
        /// Module to preload (repeatable)
        #[arg(long, value_name = "MODULE")]
        preload: Vec<String>,
    },
    /// List the environments
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show an environment: Python, preload list, fonts, visible directories, packages
    Show {
        /// The environment
        #[arg(default_value = EnvironmentSpec::DEFAULT_NAME)]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove an environment and its packages
    Remove {
        /// The environment
        name: String,
    },
}

/// What it says.
fn texts() -> &'static EnvTexts {
    &words::texts().env
}

/// Runs the command. Data goes to stdout, everything else to stderr.
pub(crate) fn run(command: EnvCommand, store: &EnvironmentStore) -> anyhow::Result<()> {
    match command {
        EnvCommand::Create {
            name,
            python,
            image: Some(image),
            container,
            ..
        } => {
            let start = Instant::now();
            store.check_new(&name)?;
            let looking = start::look_at_image(&container, &image, python.as_deref());
            let environment = store.keep_image(&name, start::block_on(looking)?)?;
            say_ready(&environment, start);
            Ok(())
        }
        EnvCommand::Create {
            name,
            python,
            packages,
            from,
            requirements,
            preload,
            ..
        } => {
            let mut spec = if name == EnvironmentSpec::DEFAULT_NAME {
                EnvironmentSpec::default_environment()
            } else {
                EnvironmentSpec::new(name)
            };
            if let Some(from) = from {
                let base = base(&from, store)?;
                spec.python = base.python;
                extend(&mut spec.packages, base.packages);
                extend(&mut spec.preload, base.preload);
            }
            spec.python = python.or(spec.python);
            extend(&mut spec.packages, packages);
            if let Some(path) = requirements {
                extend(&mut spec.packages, read_requirements(&path)?);
            }
            extend(&mut spec.preload, preload);
            build(&spec, store).map(drop)
        }
        EnvCommand::Add {
            name,
            packages,
            preload,
        } => {
            let mut spec = store.spec(&name)?;
            extend(&mut spec.packages, packages);
            extend(&mut spec.preload, preload);
            report(&spec.name, |progress| store.replace(&spec, progress)).map(drop)
        }
        EnvCommand::List { json } => list(store, json),
        EnvCommand::Show { name, json } => {
            let environment = store.load(&name)?;
            if json {
                write_json(&environment)
            } else {
                finish(write_environment(&mut io::stdout().lock(), &environment))
            }
        }
        EnvCommand::Remove { name } => {
            store.remove(&name)?;
            say(&texts().removed(&name));
            Ok(())
        }
    }
}

/// Builds an environment, and says on standard error how it goes.
pub(crate) fn build(
    spec: &EnvironmentSpec,
    store: &EnvironmentStore,
) -> anyhow::Result<Environment> {
    report(&spec.name, |progress| store.create(spec, progress))
}

/// What a new environment starts from; `default` also where it was not built yet.
fn base(name: &str, store: &EnvironmentStore) -> anyhow::Result<EnvironmentSpec> {
    match store.spec(name) {
        Err(EnvironmentError::NotFound { .. }) if name == EnvironmentSpec::DEFAULT_NAME => {
            Ok(EnvironmentSpec::default_environment())
        }
        result => Ok(result?),
    }
}

/// Adds what a list has not yet.
fn extend(list: &mut Vec<String>, more: Vec<String>) {
    for one in more {
        if !list.contains(&one) {
            list.push(one);
        }
    }
}

fn report(
    name: &str,
    work: impl FnOnce(&mut dyn FnMut(BuildStep<'_>)) -> Result<Environment, EnvironmentError>,
) -> anyhow::Result<Environment> {
    let start = Instant::now();
    let mut begun = false;
    let environment = work(&mut |step| {
        // Not before: a name in use or a missing uv is reported alone.
        if !begun {
            say(&texts().building(name));
            begun = true;
        }
        say(&texts().seconds(start.elapsed().as_secs_f64(), in_words(step)));
    })?;
    say_ready(&environment, start);
    Ok(environment)
}

fn say_ready(environment: &Environment, start: Instant) {
    say(&texts().ready(
        environment.name(),
        start.elapsed().as_secs_f64(),
        &version(environment),
        environment.packages().len(),
    ));
}

fn in_words(step: BuildStep<'_>) -> &str {
    let texts = texts();
    match step {
        BuildStep::Waiting => texts.step_waiting,
        BuildStep::Venv => texts.step_venv,
        BuildStep::Versions => texts.step_versions,
        BuildStep::Installing => texts.step_installing,
        BuildStep::Compiling => texts.step_compiling,
        BuildStep::Importing => texts.step_importing,
        BuildStep::NoChineseFont => texts.step_no_font,
        BuildStep::Writing => texts.step_writing,
        BuildStep::Uv(line) => line,
        _ => "",
    }
}

fn version(environment: &Environment) -> String {
    let (major, minor, micro) = environment.version();
    format!("{major}.{minor}.{micro}")
}

fn list(store: &EnvironmentStore, json: bool) -> anyhow::Result<()> {
    let mut environments = Vec::new();
    for found in store.inspect()? {
        match found {
            Ok(environment) => environments.push(environment),
            Err(error) => say(&texts().warning(&error_texts::of_cause(&error))),
        }
    }
    if json {
        return write_json(&environments);
    }
    if environments.is_empty() {
        say(texts().none_yet);
        return Ok(());
    }
    finish(write_list(&mut io::stdout().lock(), &environments))
}

fn write_list(out: &mut impl Write, environments: &[Environment]) -> io::Result<()> {
    let texts = texts();
    let names = environments.iter().map(Environment::name);
    let width = names.map(str::len).chain([4]).max().unwrap_or_default();
    // Only where there is one, or all lines have a gap.
    let images = environments.iter().filter_map(Environment::image);
    let image_width = images.map(|image| image.name.len().max(5)).max();
    let row = |name: &str, python: &str, packages: &str, image: &str, preload: &str| {
        let (name, python) = (table::padded(name, width), table::padded(python, 7));
        let packages = table::padded(packages, 8);
        let image = image_width.map(|width| format!("{}  ", table::padded(image, width)));
        let image = image.unwrap_or_default();
        let row = format!("{name}  {python}  {packages}  {image}{preload}");
        row.trim_end().to_owned()
    };
    let (name, packages) = (texts.head_name, texts.head_packages);
    let (image, preload) = (texts.head_image, texts.head_preload);
    writeln!(out, "{}", row(name, "PYTHON", packages, image, preload))?;
    for environment in environments {
        let packages = environment.packages().len().to_string();
        let preload = environment.preload().join(" ");
        let image = environment.image().map_or("", |image| &image.name);
        let (name, python) = (environment.name(), version(environment));
        writeln!(out, "{}", row(name, &python, &packages, image, &preload))?;
    }
    out.flush()
}

fn write_environment(out: &mut impl Write, environment: &Environment) -> io::Result<()> {
    let texts = texts();
    let line = |title, text: &str| format!("{}  {text}\n", table::padded(title, 8));
    let paths = |title, paths: &[PathBuf]| {
        let paths = paths.iter().map(|path| path.display().to_string());
        let paths: Vec<String> = paths.collect();
        match paths.as_slice() {
            [] => line(title, texts.none),
            paths => line(title, &paths.join(&format!("\n{:10}", ""))),
        }
    };
    let python = format!(
        "{} (CPython {})",
        environment.python().display(),
        version(environment)
    );
    let mut text = line(texts.name, environment.name());
    if let Some(image) = environment.image() {
        text += &line(texts.image, &image.name);
        text += &line("", image.digest.as_deref().unwrap_or_default());
        let container = &image.container;
        let address = container.address.as_deref();
        text += &line(texts.engine, address.unwrap_or(texts.local_docker));
        if let Some(runtime) = &container.runtime {
            text += &line("runtime", runtime);
        }
    }
    text += &line("python", &python);
    text += &line(texts.preload, &environment.preload().join(" "));
    if environment.image().is_none() {
        text += &paths(texts.fonts, environment.fonts());
        text += &paths(texts.visible, environment.read_only_paths());
    }
    text += &line(texts.packages, &environment.packages().len().to_string());
    for package in environment.packages() {
        text += &line("", &format!("{} {}", package.name, package.version));
    }
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn write_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    finish(writeln!(io::stdout().lock(), "{text}"))
}

/// A reader that has seen enough (`belljar env list | head -1`) is no error.
fn finish(result: io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// One line for people. When stderr is gone there is nobody to tell.
fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

fn read_requirements(path: &Path) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| texts().requirements_unreadable(&path.display()))?;
    parse_requirements(&text).with_context(|| texts().requirements_unusable(&path.display()))
}

/// Requirements without comments, continued lines joined. Options are refused here, with the line.
fn parse_requirements(text: &str) -> anyhow::Result<Vec<String>> {
    let mut packages = Vec::new();
    let mut pending = String::new();
    for (index, line) in text.lines().enumerate() {
        // As in pip: a comment starts the line or follows a space, so that URLs keep their `#`.
        let line = match line.find(" #") {
            Some(end) => &line[..end],
            None if line.trim_start().starts_with('#') => "",
            None => line,
        };
        if let Some(part) = line.trim_end().strip_suffix('\\') {
            pending.push_str(part.trim());
            pending.push(' ');
            continue;
        }
        pending.push_str(line.trim());
        let requirement = std::mem::take(&mut pending);
        let requirement = requirement.trim();
        anyhow::ensure!(
            !requirement.starts_with('-'),
            texts().requirement_is_option(index + 1, requirement)
        );
        if !requirement.is_empty() {
            packages.push(requirement.to_owned());
        }
    }
    anyhow::ensure!(pending.trim().is_empty(), texts().requirements_cut);
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_read_without_comments() {
        let text =
            "# tools\nsix  # why\n\n  numpy>=2 \\\n    --hash=sha256:aa\nx @ https://h/x#egg\n";
        assert_eq!(
            parse_requirements(text).unwrap(),
            ["six", "numpy>=2 --hash=sha256:aa", "x @ https://h/x#egg"]
        );
        let message = parse_requirements("six\n-r other.txt\n")
            .unwrap_err()
            .to_string();
        assert!(message.contains("line 2"), "{message}");
        assert!(parse_requirements("six \\\n").is_err());
    }
}
