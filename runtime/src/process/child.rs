//! `Child`: a child process, waiting for it, and what happens to it when it is dropped.

use std::future::poll_fn;
use std::io::{self, Read};
use std::pin::pin;
use std::process::{ExitStatus, Output};
use std::task::Poll;

use super::exit;
use super::{ChildStderr, ChildStdin, ChildStdout};

/// A child process, from [`Command::spawn`](super::Command::spawn), with the API of [`std::process::Child`].
///
/// Dropping it does not end the child process, unless [`kill_on_drop`](super::Command::kill_on_drop) is set.
/// On Unix the runtime then waits for the process in the background, so that no zombie is left.
///
/// ```
/// # if cfg!(windows) { return Ok(()) }
/// use runtime::process::Command;
/// let mut child = Command::new("sleep").arg("60").spawn()?;
/// assert!(child.try_wait()?.is_none());
/// child.kill()?;
/// assert!(!child.wait()?.success());
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Child {
    /// The writing end of the child's standard input, if that is [piped](super::Stdio::piped).
    pub stdin: Option<ChildStdin>,
    /// The reading end of the child's standard output, if that is [piped](super::Stdio::piped).
    pub stdout: Option<ChildStdout>,
    /// The reading end of the child's standard error, if that is [piped](super::Stdio::piped).
    pub stderr: Option<ChildStderr>,
    process: Process,
}

/// The process. Its drop is that of the child.
#[derive(Debug)]
struct Process {
    /// `None` once the drop has given it away.
    child: Option<std::process::Child>,
    kill_on_drop: bool,
}

impl Child {
    /// Takes over `child`, which was just started.
    ///
    /// # Errors
    /// Returns the error with which the system refused to register a pipe. The child is then killed.
    pub(super) fn new(mut child: std::process::Child, kill_on_drop: bool) -> io::Result<Child> {
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // Dropped by an error.
        let mut process = Process { child: Some(child), kill_on_drop: true };
        let (stdin, stdout, stderr) = (
            pipes.0.map(ChildStdin::of).transpose()?,
            pipes.1.map(ChildStdout::of).transpose()?,
            pipes.2.map(ChildStderr::of).transpose()?,
        );
        process.kill_on_drop = kill_on_drop;
        Ok(Child { stdin, stdout, stderr, process })
    }

    /// Returns the system's id of the process.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// let mut child = runtime::process::Command::new("true").spawn()?;
    /// assert_ne!(child.id(), runtime::process::id());
    /// # child.wait()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn id(&self) -> u32 {
        self.process.child().id()
    }

    /// Kills the process, with `SIGKILL`, or with the exit code 1 on Windows. It does nothing if the exit
    /// status was taken.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// let mut child = runtime::process::Command::new("sleep").arg("60").spawn()?;
    /// child.kill()?;
    /// assert_eq!(child.wait()?.code(), None);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.child_mut().kill()
    }

    /// Waits until the process has exited, and returns its exit status. Closes [`stdin`](Child::stdin) first,
    /// so that a child that reads its input does not wait for ever. A second call returns the same status.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. The process goes on, and may be waited
    /// for again.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// use runtime::time::{Duration, timeout};
    /// let mut child = runtime::process::Command::new("sleep").arg("60").spawn()?;
    /// assert!(timeout(Duration::from_millis(5), || child.wait()).is_err());
    /// child.kill()?;
    /// child.wait()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        exit::wait(self.process.child_mut())
    }

    /// Waits as [`wait`](Child::wait) does, in a future, with any executor. Closes [`stdin`](Child::stdin) at
    /// the first poll.
    ///
    /// Dropping the future ends the wait. The process goes on, and may be waited for again.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// use runtime::time::{Duration, timeout_async};
    /// let mut child = runtime::process::Command::new("sleep").arg("60").spawn()?;
    /// let status = runtime::block_on(async {
    ///     assert!(timeout_async(Duration::from_millis(5), child.wait_async()).await.is_err());
    ///     child.kill()?;
    ///     child.wait_async().await
    /// })?;
    /// assert!(!status.success());
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn wait_async(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        exit::wait_async(self.process.child_mut()).await
    }

    /// Returns the exit status if the process has exited, else `None`. Never waits.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// let mut child = runtime::process::Command::new("sleep").arg("60").spawn()?;
    /// assert!(child.try_wait()?.is_none());
    /// # child.kill()?;
    /// # child.wait()?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.child_mut().try_wait()
    }

    /// Waits until the process has exited, and returns its exit status with its output: all that it has
    /// written to [`stdout`](Child::stdout) and [`stderr`](Child::stderr), if piped. Closes
    /// [`stdin`](Child::stdin) first.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// # Cancellation
    ///
    /// A cancelled green thread that has to wait unwinds from here. The process goes on, unless
    /// [`kill_on_drop`](super::Command::kill_on_drop) is set.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// use runtime::process::{Command, Stdio};
    /// let child = Command::new("echo").arg("hello").stdout(Stdio::piped()).spawn()?;
    /// assert_eq!(child.wait_with_output()?.stdout, b"hello\n");
    /// # std::io::Result::Ok(())
    /// ```
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (stdout, stderr) = match (self.stdout.take(), self.stderr.take()) {
            // Both at a time: the child may fill one pipe while it writes to the other.
            (Some(stdout), Some(stderr)) => crate::scope(|s| {
                let other = s.spawn(|| all(Some(stderr)));
                let stdout = all(Some(stdout))?;
                // The thread does not panic, and ends early only if this caller is cancelled.
                Ok((stdout, other.join().map_err(|_| io::Error::other("reading was cancelled"))??))
            }),
            (stdout, stderr) => all(stdout).and_then(|stdout| Ok((stdout, all(stderr)?))),
        }?;
        Ok(Output { status: self.wait()?, stdout, stderr })
    }

    /// Waits as [`wait_with_output`](Child::wait_with_output) does, in a future, with any executor.
    ///
    /// Dropping the future drops the child: the process goes on, unless
    /// [`kill_on_drop`](super::Command::kill_on_drop) is set.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    ///
    /// ```
    /// # if cfg!(windows) { return Ok(()) }
    /// use runtime::process::{Command, Stdio};
    /// let child = Command::new("echo").arg("hello").stdout(Stdio::piped()).spawn()?;
    /// let output = runtime::block_on(child.wait_with_output_async())?;
    /// assert_eq!(output.stdout, b"hello\n");
    /// # std::io::Result::Ok(())
    /// ```
    pub async fn wait_with_output_async(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        let (stdout, stderr) = both(
            async {
                match &stdout {
                    Some(pipe) => pipe.read_all_async().await,
                    None => Ok(Vec::new()),
                }
            },
            async {
                match &stderr {
                    Some(pipe) => pipe.read_all_async().await,
                    None => Ok(Vec::new()),
                }
            },
        )
        .await;
        Ok(Output { stdout: stdout?, stderr: stderr?, status: self.wait_async().await? })
    }
}

/// The process' handle, which the system closes with the child.
#[cfg(windows)]
impl std::os::windows::io::AsHandle for Child {
    fn as_handle(&self) -> std::os::windows::io::BorrowedHandle<'_> {
        self.process.child().as_handle()
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsRawHandle for Child {
    fn as_raw_handle(&self) -> std::os::windows::io::RawHandle {
        self.process.child().as_raw_handle()
    }
}

/// Polls both futures until both are ready. No crate that the runtime depends on has such a function, and
/// std's `join!` is not stable. These lines cost a user less than another dependency.
async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    poll_fn(|cx| {
        if first.is_none()
            && let Poll::Ready(value) = a.as_mut().poll(cx)
        {
            first = Some(value);
        }
        if second.is_none()
            && let Poll::Ready(value) = b.as_mut().poll(cx)
        {
            second = Some(value);
        }
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            ended => {
                (first, second) = ended;
                Poll::Pending
            }
        }
    })
    .await
}

/// Reads to the end of a pipe, if there is one.
fn all(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes))?;
    Ok(bytes)
}

impl Process {
    fn child(&self) -> &std::process::Child {
        self.child.as_ref().expect("the child is there until the drop")
    }

    fn child_mut(&mut self) -> &mut std::process::Child {
        self.child.as_mut().expect("the child is there until the drop")
    }
}

/// Kills the process if that is wanted. On Unix a process that still runs then gets a green thread that waits
/// for it.
impl Drop for Process {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if sched::fork::is_forked() {
            return;
        }
        if self.kill_on_drop {
            // This fails for a process that has exited.
            let _ = child.kill();
        }
        if matches!(child.try_wait(), Ok(None)) {
            exit::take_aside(child);
        }
    }
}
