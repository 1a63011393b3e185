//! Panics: `join` returns them, and locks are poisoned.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

pub fn run() {
    panic::set_hook(Box::new(|_| ()));
    let threads: Vec<_> = (0..100)
        .map(|number| {
            thread::spawn(move || {
                thread::sleep(Duration::from_micros(number * 10));
                if number % 3 == 0 {
                    panic!("number {number}");
                }
                number
            })
        })
        .collect();
    for thread in threads {
        match thread.join() {
            Ok(number) => print!("{number} "),
            Err(payload) => print!("[{}] ", payload.downcast_ref::<String>().unwrap()),
        }
    }
    println!();
    let lock = Arc::new(Mutex::new(0));
    let other = lock.clone();
    let poisons = thread::spawn(move || {
        *other.lock().unwrap() = 1;
        let _guard = other.lock().unwrap();
        thread::sleep(Duration::from_millis(1));
        panic!("poisons");
    });
    println!("{} {}", poisons.join().is_err(), lock.is_poisoned());
    let scope = || thread::scope(|scope| drop(scope.spawn(|| panic!("in a scope"))));
    let caught = panic::catch_unwind(AssertUnwindSafe(scope));
    println!("{:?}", caught.unwrap_err().downcast_ref::<&str>());
    println!("{}", thread::spawn(thread::panicking).join().unwrap());
}
