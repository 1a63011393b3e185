//! A frame of a stack, and which frames a dump leaves out.

/// One call on a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Frame {
    /// The name of the function, or its address if it has no name.
    pub function: String,
    /// The file of the call, if it is known.
    pub file: Option<String>,
    /// The line of the call, if it is known.
    pub line: Option<u32>,
}

/// The crates of the runtime, and the crates that it uses between a user's call and the switch.
/// Without `interpose` and `sim`: the name alone says too little, as a program may have such a crate.
const OURS: [&str; 10] = [
    "runtime",
    "waits",
    "monochrome_inspect",
    "sched",
    "timers",
    "netpoll",
    "corosensei",
    "lock_api",
    "parking_lot",
    "backtrace",
];
/// The packages of these crates and of the two in a registry.
const PACKAGES: [&str; 12] = [
    "monochrome",
    "monochrome-waits",
    "monochrome-inspect",
    "monochrome-interpose",
    "monochrome-sim",
    "monochrome-sched",
    "monochrome-timers",
    "monochrome-netpoll",
    "corosensei",
    "lock_api",
    "parking_lot",
    "backtrace",
];
/// The folders of the first eight in the repository.
const FOLDERS: [&str; 8] = [
    "runtime",
    "runtime/waits",
    "runtime/inspect",
    "runtime/interpose",
    "runtime/sim",
    "sched",
    "timers",
    "netpoll",
];
const STD: [&str; 3] = ["std", "core", "alloc"];
/// The functions at the root of a stack, of std's panics and of its waits, which belong to no crate by name.
const GLUE: [&str; 4] = ["stack_init_trampoline", "stack_init_trampoline_return", "__rust_try", "syscall"];
/// The functions of glibc at the root of an OS thread's stack. A user's function may have such a name, but
/// then it has another file.
const ROOTS: [&str; 6] =
    ["_start", "__libc_start_main_impl", "__libc_start_call_main", "start_thread", "clone3", "clone"];

/// Returns `frames`, innermost first, without those of the runtime, and without those of std that the runtime
/// calls or that call the runtime. The first frame left is the user's. If no frame is the user's, returns the
/// function of this crate that was spawned.
pub(crate) fn without_ours(frames: Vec<Frame>) -> Vec<Frame> {
    let is_users = |frame: &Frame| Owner::of(frame) == Owner::User;
    let Some(first) = frames.iter().position(is_users) else { return spawned(frames) };
    let last = frames.iter().rposition(is_users).unwrap_or(first);
    let mut left = Vec::with_capacity(last - first + 1);
    // Frames of std since the last frame that was left. They are left too, unless a frame of the runtime
    // follows.
    let (mut std, mut after_ours) = (Vec::new(), false);
    for frame in frames.into_iter().take(last + 1).skip(first) {
        match Owner::of(&frame) {
            Owner::User => {
                if !after_ours {
                    left.append(&mut std);
                }
                std.clear();
                after_ours = false;
                left.push(frame);
            }
            Owner::Std => std.push(frame),
            Owner::Ours => after_ours = true,
        }
    }
    left
}

/// Returns the outermost frame that is a function of the crate `runtime`: what a user has spawned without
/// code of its own.
fn spawned(mut frames: Vec<Frame>) -> Vec<Frame> {
    let runtime = folder_of_runtime();
    let is_spawned = |frame: &Frame| match &frame.file {
        Some(file) => {
            let path = file.strip_prefix(&*runtime).and_then(|rest| rest.strip_prefix("/src/"));
            path.is_some_and(|path| !path.starts_with("spawn"))
        }
        None => crate_of(&frame.function) == "runtime" && !frame.function.contains("::spawn::"),
    };
    let at = frames.iter().rposition(is_spawned);
    at.map(|at| frames.swap_remove(at)).into_iter().collect()
}

/// Returns the folder of the crate `runtime`: around this crate in the repository, and beside it in a
/// registry (`monochrome-0.1.0`).
fn folder_of_runtime() -> String {
    let own = env!("CARGO_MANIFEST_DIR");
    let (before, after) = own.rsplit_once("inspect").expect("the name of this crate");
    // Without the `/` or the `-` before the name.
    format!("{}{after}", &before[..before.len() - 1])
}

#[derive(PartialEq, Eq)]
enum Owner {
    User,
    Std,
    Ours,
}

impl Owner {
    /// Decides by the file of the frame, because a function's name may lack its path. Without a file, decides
    /// by the name.
    fn of(frame: &Frame) -> Owner {
        let Frame { function, file, .. } = frame;
        // A frame without a name may be anything. The root of each stack has none if the program was
        // stripped.
        if GLUE.contains(&function.as_str()) || (function.starts_with("0x") && file.is_none()) {
            return Owner::Std;
        }
        if ROOTS.contains(&function.as_str()) && file.as_ref().is_none_or(|file| file.starts_with("./")) {
            return Owner::Std;
        }
        match file {
            Some(file) => Owner::of_file(file),
            None => match crate_of(function) {
                named if OURS.contains(&named) => Owner::Ours,
                named if STD.contains(&named) => Owner::Std,
                _ => Owner::User,
            },
        }
    }

    fn of_file(file: &str) -> Owner {
        let around = env!("CARGO_MANIFEST_DIR").trim_end_matches("runtime/inspect");
        let in_repository = file.strip_prefix(around);
        let is_in = |folder: &&str| {
            let path = in_repository.and_then(|path| path.strip_prefix(folder));
            path.is_some_and(|path| path.starts_with("/src/"))
        };
        let ours = FOLDERS.iter().any(is_in);
        // Of a registry: `corosensei-0.3.4/src/..`.
        let of_registry = |name: &str| {
            let mut parts = file.rsplit('/').skip_while(|&part| part != "src").skip(1);
            parts
                .next()
                .and_then(|part| part.rsplit_once('-'))
                .is_some_and(|(crate_name, _)| crate_name == name)
        };
        if ours || PACKAGES.iter().any(|name| of_registry(name)) {
            Owner::Ours
        } else if STD.iter().any(|name| file.contains(&format!("/library/{name}/src/"))) {
            Owner::Std
        } else {
            Owner::User
        }
    }
}

/// Returns the crate of a function's name: the first segment of its path. Of a method of a trait, it is the
/// crate of the type; if the type is a parameter, that of the trait.
fn crate_of(function: &str) -> &str {
    let path = function.trim_start_matches(['<', '&', '*', '[', '(']);
    let path = path.strip_prefix("mut ").or_else(|| path.strip_prefix("const ")).unwrap_or(path);
    let path = path.trim_start_matches(['<', '&', '*', '[', '(']);
    let first = path.split("::").next().unwrap_or(path);
    // `impl Trait for Type` has such a name in the older mangling: `<T as core::Trait>::method`.
    let first = first.split_once(" as ").map_or(first, |(_, of_trait)| of_trait.trim_start_matches('<'));
    // In the newer mangling a crate may have its hash: `name[0123456789abcdef]`.
    first.split('[').next().unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crate_of_a_function() {
        for (function, named) in [
            ("app::worker::run", "app"),
            ("<app::Worker as core::ops::function::FnOnce<()>>::call_once", "app"),
            ("<F as core::ops::function::FnOnce<()>>::call_once", "core"),
            ("<&mut runtime::net::TcpStream as std::io::Read>::read", "runtime"),
            ("<core::panic::unwind_safe::AssertUnwindSafe<F> as core::ops::FnOnce<()>>::call_once", "core"),
            ("sched[0123456789abcdef]::api::park::park", "sched"),
            ("main", "main"),
            ("0x55d0c0ffee", "0x55d0c0ffee"),
        ] {
            assert_eq!(crate_of(function), named, "{function}");
        }
    }

    fn frames(functions: &[&str]) -> Vec<Frame> {
        functions
            .iter()
            .map(|&function| Frame { function: function.into(), file: None, line: None })
            .collect()
    }

    #[test]
    fn only_frames_of_the_user_and_what_the_user_calls_are_left() {
        let stack = frames(&[
            "sched::run::boundary::park",
            "runtime::net::TcpStream::read",
            "<&mut R as std::io::Read>::read",
            "app::fill",
            "<core::slice::Iter<T> as core::iter::Iterator>::for_each",
            "app::serve::{{closure}}",
            "core::ops::function::FnOnce::call_once",
            "runtime::timeout",
            "app::serve",
            "std::panicking::try",
            "sched::run::task::run",
            "stack_init_trampoline",
        ]);
        let left = frames(&[
            "app::fill",
            "<core::slice::Iter<T> as core::iter::Iterator>::for_each",
            "app::serve::{{closure}}",
            "app::serve",
        ]);
        assert_eq!(without_ours(stack), left);
    }

    #[test]
    fn the_file_tells_more_than_the_name() {
        let around = env!("CARGO_MANIFEST_DIR").strip_suffix("/runtime/inspect").unwrap();
        for (file, owner) in [
            (&*format!("{around}/runtime/src/thread.rs"), Owner::Ours),
            (&*format!("{around}/runtime/inspect/src/dump.rs"), Owner::Ours),
            (&*format!("{around}/sched/src/api/park.rs"), Owner::Ours),
            (&*format!("{around}/tests/src/lib.rs"), Owner::User),
            ("/home/me/app/runtime/src/lib.rs", Owner::User),
            ("/root/.cargo/registry/src/index/corosensei-0.3.4/src/arch/x86_64.rs", Owner::Ours),
            ("/root/.cargo/registry/src/index/monochrome-0.1.0/src/thread.rs", Owner::Ours),
            ("/root/.cargo/registry/src/index/monochrome-inspect-0.1.0/src/dump.rs", Owner::Ours),
            ("/root/.cargo/registry/src/index/monochrome-sched-0.1.0/src/api/park.rs", Owner::Ours),
            ("/rustc/0123abcd/library/core/src/ops/function.rs", Owner::Std),
        ] {
            let frame = Frame { function: "run".into(), file: Some(file.into()), line: Some(1) };
            assert!(Owner::of(&frame) == owner, "{file}");
        }
    }

    #[test]
    fn of_a_stack_without_a_user_the_function_that_was_spawned_is_left() {
        let stack = frames(&["sched::run::boundary::park", "runtime::thread::park", "sched::run::task::run"]);
        assert_eq!(without_ours(stack), frames(&["runtime::thread::park"]));
        assert_eq!(without_ours(frames(&["sched::run::task::run"])), frames(&[]));

        let of_file = |path: &str| Frame {
            function: "run".into(),
            file: Some(format!("{}/src/{path}", folder_of_runtime())),
            line: Some(1),
        };
        assert!(folder_of_runtime().ends_with("/runtime"));
        let stack = vec![of_file("thread.rs"), of_file("spawn/entry.rs")];
        assert_eq!(without_ours(stack), [of_file("thread.rs")]);
    }
}
