//! `monochrome run PROGRAM [ARGUMENTS]`: runs a program that is there already, with its threads as green
//! threads.
//!
//! The program needs no change and is not built anew: it must be linked dynamically with glibc. The settings
//! of the runtime are variables of the environment, such as `RUNTIME_PROCS`, `RUNTIME_DUMP` and
//! `RUNTIME_THREADS=os`.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: monochrome run PROGRAM [ARGUMENTS ..]

Runs PROGRAM with its threads as green threads. Settings are variables of the environment:
  RUNTIME_PROCS=N         how many green threads run at the same moment
  RUNTIME_THREADS=os      OS threads, to compare
  RUNTIME_OS_THREADS=LIST  threads with these names, or of these libraries, have an OS thread each: gpu,libaudio*
  RUNTIME_CHILDREN=green  the programs that PROGRAM starts have green threads, too
  RUNTIME_DUMP=QUIT       SIGQUIT prints what each green thread waits for
  MONOCHROME_PRELOAD=FILE the library, if it does not lie beside this program";

/// The library, beside this program.
const LIBRARY: &str = "libmonochrome_preload.so";

fn main() -> ExitCode {
    let mut args = env::args_os().skip(1);
    let (Some(verb), Some(program)) = (args.next(), args.next()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if verb != "run" {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    let failed = match prepare(&program) {
        Ok(preload) => Command::new(&program).args(args).env("LD_PRELOAD", preload).exec().to_string(),
        Err(why) => why,
    };
    eprintln!("monochrome: {}: {failed}", program.to_string_lossy());
    // As shells have it for a program that cannot be run.
    ExitCode::from(127)
}

/// Returns the value of `LD_PRELOAD` for the program.
fn prepare(program: &OsString) -> Result<OsString, String> {
    let library = library()?;
    let path = find(Path::new(program)).ok_or("there is no such program")?;
    match is_dynamic(&path) {
        Ok(true) => {}
        Ok(false) => return Err("it is linked statically, so no library can be preloaded".into()),
        Err(error) => return Err(format!("it cannot be read: {error}")),
    }
    let mut preload = library.into_os_string();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    Ok(preload)
}

fn library() -> Result<PathBuf, String> {
    if let Some(path) = env::var_os("MONOCHROME_PRELOAD") {
        let path = PathBuf::from(path);
        return path
            .canonicalize()
            .map_err(|error| format!("MONOCHROME_PRELOAD is {}: {error}", path.display()));
    }
    let own = env::current_exe().map_err(|error| format!("this program does not find itself: {error}"))?;
    let path = own.with_file_name(LIBRARY);
    path.canonicalize().map_err(|error| {
        format!("{}: {error}. `cargo build --release` in runtime/preload builds it", path.display())
    })
}

/// Returns the file of a program, as a shell finds it.
fn find(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.is_file().then(|| program.to_owned());
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Returns `true` if the dynamic linker starts this file, or an interpreter does.
fn is_dynamic(path: &Path) -> io::Result<bool> {
    let mut bytes = Vec::new();
    File::open(path)?.take(1 << 16).read_to_end(&mut bytes)?;
    if !bytes.starts_with(b"\x7fELF") {
        return Ok(true);
    }
    let word = |at: usize, n: usize| {
        let bytes = bytes.get(at..at + n)?;
        Some(bytes.iter().rev().fold(0_usize, |word, &byte| word << 8 | usize::from(byte)))
    };
    // The table of program headers of a 64-bit file: where, how large each, how many.
    let [Some(table), Some(size), Some(count)] = [word(32, 8), word(54, 2), word(56, 2)] else {
        return Ok(true);
    };
    const INTERPRETER: usize = 3;
    Ok((0..count).any(|i| word(table + i * size, 4) == Some(INTERPRETER)))
}
