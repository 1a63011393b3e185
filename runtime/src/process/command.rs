//! `Command`: what to start, and starting it.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{CommandArgs, CommandEnvs, ExitStatus, Output, Stdio};

use super::Child;
use crate::bounded::bounded;

/// A command that starts child processes, with the API of [`std::process::Command`].
///
/// ```
/// # if cfg!(windows) { return Ok(()) }
/// use runtime::process::Command;
/// let output = Command::new("sh").args(["-c", "echo $NAME"]).env("NAME", "world").output()?;
/// assert_eq!(output.stdout, b"world\n");
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Command {
    command: std::process::Command,
    /// Whether the user has set standard input, output and error. The others are set anew for each start.
    is_set: [bool; 3],
    kill_on_drop: bool,
}

/// What a stream is that the user has not set.
type DefaultStdio = fn() -> Stdio;

impl Command {
    /// Returns a command that starts `program`, without arguments, in the environment and the directory of
    /// this process.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// assert!(runtime::process::Command::new("true").status()?.success());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn new(program: impl AsRef<OsStr>) -> Command {
        let command = std::process::Command::new(program);
        Command { command, is_set: [false; 3], kill_on_drop: false }
    }

    /// Adds an argument.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// let output = runtime::process::Command::new("echo").arg("hello").output()?;
    /// assert_eq!(output.stdout, b"hello\n");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Command {
        self.command.arg(arg);
        self
    }

    /// Adds several arguments.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// let output = runtime::process::Command::new("echo").args(["hello", "world"]).output()?;
    /// assert_eq!(output.stdout, b"hello world\n");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn args(&mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Command {
        self.command.args(args);
        self
    }

    /// Sets a variable of the child's environment.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// let output = runtime::process::Command::new("sh").args(["-c", "echo $A"]).env("A", "1").output()?;
    /// assert_eq!(output.stdout, b"1\n");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn env(&mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Command {
        self.command.env(key, value);
        self
    }

    /// Sets several variables of the child's environment.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// let mut command = runtime::process::Command::new("sh");
    /// let output = command.args(["-c", "echo $A$B"]).envs([("A", "1"), ("B", "2")]).output()?;
    /// assert_eq!(output.stdout, b"12\n");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn envs(
        &mut self,
        vars: impl IntoIterator<Item = (impl AsRef<OsStr>, impl AsRef<OsStr>)>,
    ) -> &mut Command {
        self.command.envs(vars);
        self
    }

    /// Removes a variable from the child's environment.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// let mut command = runtime::process::Command::new("sh");
    /// let output = command.args(["-c", "echo $A"]).env("A", "1").env_remove("A").output()?;
    /// assert_eq!(output.stdout, b"\n");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn env_remove(&mut self, key: impl AsRef<OsStr>) -> &mut Command {
        self.command.env_remove(key);
        self
    }

    /// Removes all variables from the child's environment.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// let output = runtime::process::Command::new("/usr/bin/env").env_clear().env("A", "1").output()?;
    /// assert_eq!(output.stdout, b"A=1\n");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn env_clear(&mut self) -> &mut Command {
        self.command.env_clear();
        self
    }

    /// Sets the child's working directory.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// let output = runtime::process::Command::new("pwd").current_dir("/").output()?;
    /// assert_eq!(output.stdout, b"/\n");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn current_dir(&mut self, dir: impl AsRef<Path>) -> &mut Command {
        self.command.current_dir(dir);
        self
    }

    /// Sets the child's standard input. The default is this process's, and none for
    /// [`output`](Command::output).
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// use runtime::process::{Command, Stdio};
    /// assert!(Command::new("cat").stdin(Stdio::null()).status()?.success());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn stdin(&mut self, stdin: impl Into<Stdio>) -> &mut Command {
        self.command.stdin(stdin);
        self.is_set[0] = true;
        self
    }

    /// Sets the child's standard output. The default is this process's, and a pipe for
    /// [`output`](Command::output).
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// use runtime::process::{Command, Stdio};
    /// assert!(Command::new("echo").arg("hello").stdout(Stdio::null()).status()?.success());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn stdout(&mut self, stdout: impl Into<Stdio>) -> &mut Command {
        self.command.stdout(stdout);
        self.is_set[1] = true;
        self
    }

    /// Sets the child's standard error. The default is this process's, and a pipe for
    /// [`output`](Command::output).
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// use runtime::process::{Command, Stdio};
    /// assert!(!Command::new("ls").arg("/no/such/path").stderr(Stdio::null()).status()?.success());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn stderr(&mut self, stderr: impl Into<Stdio>) -> &mut Command {
        self.command.stderr(stderr);
        self.is_set[2] = true;
        self
    }

    /// Sets whether a process is killed when its [`Child`] is dropped before its exit status was taken. The
    /// default is `false`, as in std. The name is tokio's.
    ///
    /// With `true`, a time-out or a cancellation that ends [`status`](Command::status),
    /// [`output`](Command::output) or [`Child::wait_with_output`] kills the process. Processes that the
    /// killed one has started go on.
    ///
    /// ```
    /// # if cfg!(windows) { return }
    /// use runtime::process::Command;
    /// use runtime::time::{Duration, timeout};
    /// let late = timeout(Duration::from_millis(5), || Command::new("sleep").arg("60").kill_on_drop(true).status());
    /// assert!(late.is_err());
    /// ```
    pub fn kill_on_drop(&mut self, kill: bool) -> &mut Command {
        self.kill_on_drop = kill;
        self
    }

    /// Starts the process.
    ///
    /// # Errors
    ///
    /// Returns the system's error if the process cannot be started (`NotFound` if there is no such program),
    /// or if its pipes cannot be registered. No process is left then.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to [wait in line](crate::Builder::blocking_threads) unwinds from
    /// here.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// let mut child = runtime::process::Command::new("true").spawn()?;
    /// assert!(child.wait()?.success());
    /// let error = runtime::process::Command::new("/no/such/program").spawn().unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.spawn_with([Stdio::inherit; 3])
    }

    /// Starts the process, waits until it has exited, and returns its exit status.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`spawn`](Command::spawn).
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. The process goes on, unless
    /// [`kill_on_drop`](Command::kill_on_drop) is set.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// assert!(!runtime::process::Command::new("false").status()?.success());
    /// # std::io::Result::Ok(())
    /// ```
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// Starts the process, waits until it has exited, and returns its exit status and what it has written.
    /// Streams that were not set are pipes, and standard input is empty.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`spawn`](Command::spawn).
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. The process goes on, unless
    /// [`kill_on_drop`](Command::kill_on_drop) is set.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// let output = runtime::process::Command::new("sh").args(["-c", "echo out; echo err >&2"]).output()?;
    /// assert_eq!((&*output.stdout, &*output.stderr), (&b"out\n"[..], &b"err\n"[..]));
    /// # std::io::Result::Ok(())
    /// ```
    pub fn output(&mut self) -> io::Result<Output> {
        self.spawn_with([Stdio::null, Stdio::piped, Stdio::piped])?.wait_with_output()
    }

    fn spawn_with(&mut self, defaults: [DefaultStdio; 3]) -> io::Result<Child> {
        let set = [
            std::process::Command::stdin::<Stdio>,
            std::process::Command::stdout,
            std::process::Command::stderr,
        ];
        for ((set, default), is_set) in set.into_iter().zip(defaults).zip(self.is_set) {
            if !is_set {
                set(&mut self.command, default());
            }
        }
        // The system answers when the new process has begun its program.
        let child = bounded(|| self.command.spawn())?;
        Child::new(child, self.kill_on_drop)
    }

    /// Returns the program.
    ///
    /// ```
    /// assert_eq!(runtime::process::Command::new("ls").get_program(), "ls");
    /// ```
    pub fn get_program(&self) -> &OsStr {
        self.command.get_program()
    }

    /// Returns the arguments.
    ///
    /// ```
    /// let mut command = runtime::process::Command::new("ls");
    /// assert!(command.arg("-l").get_args().eq(["-l"]));
    /// ```
    pub fn get_args(&self) -> CommandArgs<'_> {
        self.command.get_args()
    }

    /// Returns the variables that were set (`Some`) or removed (`None`).
    ///
    /// ```
    /// let mut command = runtime::process::Command::new("ls");
    /// assert_eq!(command.env("A", "1").get_envs().count(), 1);
    /// ```
    pub fn get_envs(&self) -> CommandEnvs<'_> {
        self.command.get_envs()
    }

    /// Returns the working directory that was set.
    ///
    /// ```
    /// assert_eq!(runtime::process::Command::new("ls").get_current_dir(), None);
    /// ```
    pub fn get_current_dir(&self) -> Option<&Path> {
        self.command.get_current_dir()
    }

    /// Returns std's command, for the settings of `CommandExt`. In `std::os::unix::process` these are user,
    /// group and process group, in `std::os::windows::process` flags of the creation and unquoted arguments.
    /// Set the standard streams with the methods of this type.
    ///
    /// ```
    /// # #[cfg(unix)] {
    /// use std::os::unix::process::CommandExt;
    /// let mut command = runtime::process::Command::new("true");
    /// command.as_std_mut().process_group(0);
    /// assert!(command.status()?.success());
    /// # }
    /// # #[cfg(windows)] {
    /// # use std::os::windows::process::CommandExt;
    /// # let mut command = runtime::process::Command::new("cmd");
    /// # command.as_std_mut().creation_flags(0x0800_0000).raw_arg("/c exit 0");
    /// # assert!(command.status()?.success());
    /// # }
    /// # std::io::Result::Ok(())
    /// ```
    pub fn as_std_mut(&mut self) -> &mut std::process::Command {
        &mut self.command
    }
}
