//! A program of std, as anyone writes it. It prints what it has computed, and how many OS threads it has.

use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const THREADS: usize = 300;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("child") {
        let preload = std::env::var("LD_PRELOAD").unwrap_or_default();
        println!("child: {preload:?}");
        return;
    }
    let (to_main, sums) = mpsc::channel();
    let all_wait = Arc::new(Barrier::new(THREADS + 1));
    let total = Arc::new(Mutex::new(0));
    let threads: Vec<_> = (0..THREADS)
        .map(|i| {
            let (to_main, all_wait, total) = (to_main.clone(), all_wait.clone(), total.clone());
            thread::spawn(move || {
                all_wait.wait();
                // Main counts the OS threads.
                all_wait.wait();
                thread::sleep(Duration::from_millis(10));
                *total.lock().unwrap() += i;
                to_main.send(i).unwrap();
                i
            })
        })
        .collect();
    all_wait.wait();
    let os_threads = std::fs::read_dir("/proc/self/task").unwrap().count();
    all_wait.wait();
    let joined: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    drop(to_main);
    let sent: usize = sums.iter().sum();
    println!("{joined} {sent} {}", total.lock().unwrap());
    eprintln!("OS threads: {os_threads}");
    let child = std::process::Command::new(std::env::current_exe().unwrap()).arg("child").output().unwrap();
    print!("{}", String::from_utf8_lossy(&child.stdout));
}
