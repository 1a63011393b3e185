//! Thread-locals of its own for each closure: libraries that are opened while the runtime works, with a place
//! in every block.
//!
//! libc's place for such libraries is small. So each test has a process of its own.
#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable))
))]

use std::ffi::CString;
use std::process::Command;
use std::sync::{Arc, OnceLock, mpsc};

use runtime::{Builder, ThreadLocals, scope, spawn, yield_now};
use tests::child;
use tests::folder::Folder;
use tests::with_built;

/// A library with thread-locals of the model "initial-exec": `next` counts up from `start`, `count` from 0.
struct Library(*mut libc::c_void);

// SAFETY: the handle is used by libc's functions, which any thread may call.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    fn compile(folder: &Folder, start: i64) -> CString {
        Library::compile_for(folder, start, "initial-exec", "long")
    }

    fn compile_for(folder: &Folder, start: i64, model: &str, number: &str) -> CString {
        let (source, library) = (folder.path(&format!("{start}.c")), folder.path(&format!("{start}.so")));
        let text = if number == "long" {
            format!(
                "static __thread long value = {start}, counted;
                 long next(void) {{ return value++; }}
                 long count(void) {{ return ++counted; }}"
            )
        } else {
            format!("__thread {number} value; {number} next(void) {{ return value++; }}")
        };
        std::fs::write(&source, text).unwrap();
        // A compiler for the processor of this program.
        let mut cc = Command::new(std::env::var("TESTS_CC").unwrap_or("cc".into()));
        cc.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
        assert!(cc.arg(format!("-ftls-model={model}")).status().unwrap().success());
        CString::new(library.to_str().unwrap()).unwrap()
    }

    fn open(path: &CString) -> Library {
        // SAFETY: the library has no code that runs when it is opened.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{path:?} cannot be opened");
        Library(handle)
    }

    fn call(&self, name: &std::ffi::CStr) -> i64 {
        // SAFETY: the library is open, and has these two functions.
        unsafe {
            let function = libc::dlsym(self.0, name.as_ptr());
            std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> i64>(function)()
        }
    }

    /// Fails unless this green thread has the start values and keeps what it makes of them.
    fn check(&self, start: i64) {
        for n in 0..20 {
            assert_eq!((self.call(c"next"), self.call(c"count")), (start + n, n + 1));
            yield_now();
        }
    }

    fn close(self) {
        // SAFETY: no thread uses the library any more.
        assert_eq!(unsafe { libc::dlclose(self.0) }, 0);
    }
}

/// Runs `count` closures at once in which each sees the start values, after other closures have used the same
/// stacks.
fn check_in_many(library: &Library, start: i64) {
    for _ in 0..3 {
        scope(|s| (0..50).for_each(|_| drop(s.spawn(|| library.check(start)))));
    }
}

fn builder(procs: usize) -> Builder {
    Builder::new().procs(procs).thread_locals(ThreadLocals::OfGreenThread).late_libraries(true)
}

fn on_all(main: impl Fn() + Send + Sync) {
    for procs in [1, 2, 8] {
        with_built(builder(procs), |runtime| runtime.block_on(&main));
    }
}

#[test]
fn closures_see_the_start_values_of_libraries_that_were_opened_since() {
    tests::alone!();
    let folder = Folder::new();
    let paths = [7, 42].map(|start| (start, Library::compile(&folder, start)));
    on_all(|| {
        scope(|s| (0..50).for_each(|_| drop(s.spawn(yield_now))));
        // The second may get the place of the first one.
        for (start, path) in &paths {
            let library = Library::open(path);
            check_in_many(&library, *start);
            library.close();
        }
        // Both at once.
        let both = paths.each_ref().map(|(start, path)| (*start, Library::open(path)));
        for (start, library) in &both {
            check_in_many(library, *start);
        }
        both.into_iter().for_each(|(_, library)| library.close());
    });
}

#[test]
fn closures_that_live_see_the_start_values_of_a_library_when_they_go_on() {
    tests::alone!();
    let folder = Folder::new();
    let paths = [7, 42].map(|start| (start, Library::compile(&folder, start)));
    on_all(|| paths.iter().for_each(|(start, path)| open_while_closures_wait(*start, path)));
}

/// Each has its own copies of the libraries: one file that is opened twice is one library. libc uses the place
/// of a closed library again only if no other was opened since, so it has place for some 100 of these.
#[test]
fn several_runtimes_open_libraries_while_closures_wait() {
    tests::alone!();
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                let folder = Folder::new();
                let paths = [7, 42, 99].map(|start| (start, Library::compile(&folder, start)));
                with_built(builder(2), |runtime| {
                    for (start, path) in paths.iter().cycle().take(20) {
                        runtime.block_on(|| open_while_closures_wait(*start, path));
                    }
                });
            });
        }
    });
}

fn open_while_closures_wait(start: i64, path: &CString) {
    let library = Arc::new(OnceLock::<Library>::new());
    let wait_and_check = || {
        let library = library.clone();
        move || {
            runtime::thread::park();
            library.get().expect("it was opened before the unpark").check(start);
        }
    };
    let threads: Vec<_> = (0..20).map(|_| spawn(wait_and_check())).collect();
    threads.iter().for_each(tests::until_it_waits);
    assert!(library.set(Library::open(path)).is_ok());
    threads.iter().for_each(|thread| thread.thread().unpark());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    Arc::into_inner(library).and_then(OnceLock::into_inner).expect("it was opened").close();
}

#[test]
fn a_closure_that_outlives_a_library_sees_the_start_values_of_the_next_one() {
    tests::alone!();
    let folder = Folder::new();
    let paths = [7, 42].map(|start| (start, Library::compile(&folder, start)));
    on_all(|| {
        for (start, path) in paths.iter().cycle().take(6) {
            let library = Library::open(path);
            yield_now();
            library.check(*start);
            library.close();
            // The block hears that the library has gone, before the next one takes its place.
            yield_now();
            scope(|s| drop(s.spawn(yield_now)));
        }
    });
}

#[test]
fn a_closure_that_opens_a_library_sees_the_start_values_after_it_has_waited() {
    tests::alone!();
    let folder = Folder::new();
    let path = Library::compile(&folder, 7);
    on_all(|| {
        let opener = || {
            let library = Library::open(&path);
            yield_now();
            library.check(7);
            // What it has made of them is kept, also after others have seen it for the first time.
            check_in_many(&library, 7);
            assert_eq!((library.call(c"next"), library.call(c"count")), (27, 21));
            library
        };
        scope(|s| s.spawn(opener).join().unwrap()).close();
    });
}

#[test]
fn libraries_are_opened_and_closed_while_closures_begin_and_end() {
    tests::alone!();
    let folder = Folder::new();
    let paths = [7, 42, 99].map(|start| (start, Library::compile(&folder, start)));
    on_all(|| {
        let (ends, end) = mpsc::channel::<()>();
        let spawner = spawn(move || {
            while end.try_recv() == Err(mpsc::TryRecvError::Empty) {
                scope(|s| (0..20).for_each(|_| drop(s.spawn(yield_now))));
            }
        });
        for (start, path) in paths.iter().cycle().take(100) {
            let library = Library::open(path);
            scope(|s| (0..4).for_each(|_| drop(s.spawn(|| library.check(*start)))));
            library.close();
        }
        drop(ends);
        spawner.join().unwrap();
    });
}

/// Returns what glibc says of a library that it does not open.
fn refusal(path: &CString) -> String {
    // SAFETY: the library has no code that runs when it is opened. The text is this thread's until its next
    // call of such a function.
    unsafe {
        assert!(libc::dlopen(path.as_ptr(), libc::RTLD_NOW).is_null(), "{path:?} was opened");
        std::ffi::CStr::from_ptr(libc::dlerror()).to_str().unwrap().to_owned()
    }
}

#[test]
fn without_late_libraries_those_with_a_place_in_each_block_are_refused() {
    tests::alone!();
    let folder = Folder::new();
    let before = Library::open(&Library::compile(&folder, 1));
    let late = Library::compile(&folder, 2);
    let dynamic = Library::compile_for(&folder, 3, "global-dynamic", "long");
    let two_bytes = Library::compile_for(&folder, 4, "initial-exec", "short");
    for procs in [1, 2, 8] {
        let builder = Builder::new().procs(procs).thread_locals(ThreadLocals::OfGreenThread);
        with_built(builder, |runtime| {
            runtime.block_on(|| {
                check_in_many(&before, 1);
                for path in [&late, &two_bytes] {
                    let text = refusal(path);
                    assert!(text.contains("cannot allocate memory in static TLS block"), "{text}");
                }
                let library = Library::open(&dynamic);
                check_in_many(&library, 3);
                library.close();
                check_in_many(&before, 1);
            });
        });
    }
    let error = builder(1).build().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    assert!(error.to_string().starts_with("late_libraries is on, but"), "{error}");
}

/// The reserve for libraries is that of the process: who keeps it, keeps it for all.
#[test]
fn a_runtime_with_late_libraries_keeps_them_for_all() {
    tests::alone!();
    let folder = Folder::new();
    let path = Library::compile(&folder, 7);
    with_built(builder(1), |_| {});
    with_built(builder(2).late_libraries(false), |runtime| {
        runtime.block_on(|| {
            let library = Library::open(&path);
            check_in_many(&library, 7);
            library.close();
        });
    });
}

/// glibc has one byte left, where a green thread has its stack.
#[test]
fn a_library_of_one_byte_ends_the_process() {
    let body = || {
        let folder = Folder::new();
        let path = Library::compile_for(&folder, 5, "initial-exec", "char");
        let builder = Builder::new().procs(1).thread_locals(ThreadLocals::OfGreenThread);
        with_built(builder, |runtime| {
            runtime.block_on(|| {
                // No green thread uses the library, which stays open.
                let _library = Library::open(&path);
                yield_now();
                scope(|s| drop(s.spawn(yield_now)));
            });
        });
    };
    child::run("a_library_of_one_byte_ends_the_process", "", body, |output| {
        let text = child::stderr(output);
        assert!(!output.status.success() && text.contains("RUNTIME_LATE_LIBRARIES=on"), "{text}");
    });
}
