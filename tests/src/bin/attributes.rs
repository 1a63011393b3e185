//! Functions with `#[runtime::main]` for `tests/runtimes/attributes.rs`; the program's argument names the
//! function.

use std::error::Error;
use std::process::ExitCode;

use runtime as renamed;
use runtime::Handle;

/// Prints the number of Ps of the default runtime, as a green thread and as a plain OS thread see it.
fn print_procs() {
    let plain = std::thread::spawn(|| Handle::current().procs()).join().unwrap();
    println!("procs {} {plain}", Handle::current().procs());
}

mod plain {
    #[runtime::main]
    pub(super) fn main() {
        super::print_procs();
    }
}

mod set {
    #[runtime::main(procs = 3, thread_name = String::from("named"), stack_size = 1 << 20, sysmon = true)]
    pub(super) async fn main() {
        runtime::time::sleep_async(std::time::Duration::from_millis(1)).await;
        super::print_procs();
        println!("{}", std::thread::current().name().unwrap_or_default());
    }
}

mod late {
    #[runtime::main(procs = 3)]
    pub(super) fn main() {
        println!("never printed");
    }
}

mod code {
    #[runtime::main]
    pub(super) fn main() -> std::process::ExitCode {
        3.into()
    }
}

mod error {
    /// The error is not `Send`.
    #[runtime::main]
    pub(super) fn main() -> Result<(), Box<dyn super::Error>> {
        let n: u8 = "many".parse()?;
        println!("{n}");
        Ok(())
    }
}

mod future_error {
    #[runtime::main(procs = 1)]
    pub(super) async fn main() -> Result<(), Box<dyn super::Error>> {
        runtime::time::sleep_async(std::time::Duration::from_millis(1)).await;
        Err("too bad".into())
    }
}

mod local {
    use std::rc::Rc;
    use std::time::Duration;

    use runtime::time::{sleep_async, timeout, timeout_async};

    /// The future is not `Send`. It runs as a green thread all the same.
    #[runtime::main(procs = 3)]
    pub(super) async fn main() -> Result<(), Box<dyn super::Error>> {
        let (here, mine) = (std::thread::current().id(), Rc::new(7));
        for _ in 0..20 {
            sleep_async(Duration::from_micros(100)).await;
            let child = runtime::spawn(|| (runtime::Handle::current().procs(), std::thread::current().id()));
            assert_eq!(child.await.unwrap().0, 3);
            assert_eq!(std::thread::current().id(), here, "its polls stay on one OS thread");
        }
        assert!(timeout(Duration::from_millis(1), || runtime::sleep(Duration::MAX)).is_err());
        assert!(timeout_async(Duration::from_millis(1), sleep_async(Duration::MAX)).await.is_err());
        let green = runtime::Handle::try_current().map(|handle| handle.procs());
        println!("local {mine} {green:?}");
        Err("too bad".into())
    }
}

mod local_panics {
    #[runtime::main]
    pub(super) async fn main() {
        let mine = std::rc::Rc::new(7);
        runtime::time::sleep_async(std::time::Duration::from_millis(1)).await;
        panic!("on purpose {mine}");
    }
}

mod local_waits {
    #[runtime::main]
    pub(super) async fn main() {
        let mine = std::rc::Rc::new(());
        std::future::pending::<()>().await;
        drop(mine);
    }
}

mod panics {
    #[runtime::main]
    pub(super) fn main() {
        panic!("on purpose");
    }
}

mod never {
    #[runtime::main]
    pub(super) fn main() -> ! {
        std::process::exit(4)
    }
}

mod again {
    use std::sync::atomic::{AtomicUsize, Ordering};

    static CALLS: AtomicUsize = AtomicUsize::new(0);

    #[runtime::main(procs = 2)]
    pub(super) fn main() -> Result<(), String> {
        match CALLS.fetch_add(1, Ordering::Relaxed) {
            0..9 => main(),
            calls => Err(format!("{calls} calls")),
        }
    }
}

mod ends {
    #[runtime::main]
    pub(super) fn main() {
        for i in 0..100 {
            runtime::spawn(move || {
                loop {
                    if i % 2 == 0 { runtime::yield_now() } else { std::hint::spin_loop() }
                }
            });
        }
        println!("ends");
    }
}

mod waits {
    #[runtime::main]
    pub(super) fn main() {
        let (_sender, receiver) = runtime::channel::bounded::<()>(0);
        let _ = receiver.recv();
    }
}

mod path {
    #[super::renamed::main(crate = "super::renamed", migration = super::renamed::Migration::BeforeStart)]
    pub(super) async fn main() {
        println!("renamed");
    }
}

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    match name.as_str() {
        "plain" => plain::main(),
        "set" => set::main(),
        "late" => {
            runtime::spawn(|| ()).join().unwrap();
            late::main()
        }
        "code" => code::main(),
        "error" => error::main(),
        "future_error" => future_error::main(),
        "local" => local::main(),
        "local_panics" => local_panics::main(),
        "local_waits" => local_waits::main(),
        "panics" => panics::main(),
        "never" => never::main(),
        "again" => again::main(),
        "ends" => ends::main(),
        "waits" => waits::main(),
        "path" => path::main(),
        _ => panic!("no function {name:?}"),
    }
}
