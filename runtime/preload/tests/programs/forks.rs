//! A program whose child, made by `fork`, goes on without `exec`: it starts threads, and returns from `main`.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

fn main() -> ExitCode {
    thread::spawn(|| ()).join().unwrap();
    // A thread's stack and thread-locals may be given away in the child, but not the caller's.
    let of_main = fork_and_work();
    let of_thread = thread::spawn(fork_and_work).join().unwrap();
    let (Some(of_main), Some(of_thread)) = (of_main, of_thread) else { return ExitCode::from(7) };
    println!("children: {of_main} {of_thread}");
    ExitCode::SUCCESS
}

/// Returns the exit status of a child; `None` in the child, which has computed what it should.
fn fork_and_work() -> Option<i32> {
    // SAFETY: std's locks are free: the other threads of the process wait.
    match unsafe { libc::fork() } {
        0 => {
            for _ in 0..20 {
                let threads: Vec<_> = (0..50_u64)
                    .map(|i| {
                        thread::spawn(move || {
                            thread::sleep(Duration::from_micros(i * 20));
                            i
                        })
                    })
                    .collect();
                let sum: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
                assert_eq!(sum, 1225);
            }
            if thread::current().name() != Some("main") {
                // The end of the last thread of a process.
                std::process::exit(8);
            }
            None
        }
        child => {
            let mut status = 0;
            // SAFETY: the call fills `status`.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            Some(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -status })
        }
    }
}
