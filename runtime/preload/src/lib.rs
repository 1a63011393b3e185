//! The library that `monochrome run` preloads: the line `runtime::interpose!(threads);` for a program that is
//! there already. The page `runtime::docs::threads` says what that does.

use std::ffi::{c_char, c_int};

runtime::interpose!(preload);

/// The variable by which the dynamic linker finds this library.
const PRELOAD: &str = "LD_PRELOAD";
/// With this variable, programs that the program starts have green threads, too.
const CHILDREN: &str = "RUNTIME_CHILDREN";

/// Takes this library out of the environment, so that the programs which the program starts are as ever.
extern "C" fn forget(_argc: c_int, _argv: *mut *mut c_char, _envp: *mut *mut c_char) {
    if std::env::var_os(CHILDREN).is_some_and(|value| value == "green") {
        return;
    }
    let Some(all) = std::env::var_os(PRELOAD) else { return };
    let all = all.to_string_lossy();
    let is_other = |path: &&str| !path.is_empty() && !path.ends_with("libmonochrome_preload.so");
    let others: Vec<&str> = all.split([':', ' ']).filter(is_other).collect();
    // SAFETY: the dynamic linker calls this before the program has another thread.
    unsafe {
        if others.is_empty() {
            std::env::remove_var(PRELOAD);
        } else {
            std::env::set_var(PRELOAD, others.join(":"));
        }
    }
}

/// The dynamic linker calls what stands here, before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static FORGET: extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) = forget;
