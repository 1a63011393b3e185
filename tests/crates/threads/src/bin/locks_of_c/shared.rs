//! Mutexes and condition variables that processes share, and robust mutexes.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

use libc::{c_int, pthread_cond_t, pthread_mutex_t};

struct Memory {
    mutex: pthread_mutex_t,
    condition: pthread_cond_t,
    value: AtomicU32,
}

/// Makes a mutex and a condition variable in memory that children share. Both stay as long as the process.
fn memory(robust: bool) -> *mut Memory {
    let (mut of_mutex, mut of_condition) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the first calls make the attributes and the memory.
    unsafe {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        let memory = libc::mmap(ptr::null_mut(), size_of::<Memory>(), access, flags, -1, 0).cast::<Memory>();
        libc::pthread_mutexattr_init(of_mutex.as_mut_ptr());
        libc::pthread_mutexattr_setpshared(of_mutex.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED);
        if robust {
            libc::pthread_mutexattr_setrobust(of_mutex.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST);
        }
        assert_eq!(libc::pthread_mutex_init(&raw mut (*memory).mutex, of_mutex.as_ptr()), 0);
        libc::pthread_condattr_init(of_condition.as_mut_ptr());
        libc::pthread_condattr_setpshared(of_condition.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED);
        assert_eq!(libc::pthread_cond_init(&raw mut (*memory).condition, of_condition.as_ptr()), 0);
        memory
    }
}

/// Runs `run` in a child. Returns the number of the child.
fn fork(run: impl FnOnce()) -> c_int {
    // SAFETY: the child calls functions of pthread only, and exits.
    unsafe {
        match libc::fork() {
            0 => {
                run();
                libc::_exit(0)
            }
            child => child,
        }
    }
}

fn join(child: c_int) -> c_int {
    let mut status = -1;
    // SAFETY: the place is this function's.
    unsafe { libc::waitpid(child, &mut status, 0) };
    status
}

/// Four threads and a child take turns in counting.
pub fn take_turns() {
    const TURNS: u32 = 400;
    let memory = memory(false).expose_provenance();
    let count = move |mine: u32| {
        // SAFETY: the memory stays. pthread's functions and atomic operations change it.
        unsafe {
            let memory = ptr::with_exposed_provenance_mut::<Memory>(memory);
            let (mutex, condition) = (&raw mut (*memory).mutex, &raw mut (*memory).condition);
            assert_eq!(libc::pthread_mutex_lock(mutex), 0);
            while (*memory).value.load(SeqCst) < TURNS {
                if (*memory).value.load(SeqCst) % 5 == mine {
                    (*memory).value.fetch_add(1, SeqCst);
                    libc::pthread_cond_broadcast(condition);
                } else {
                    libc::pthread_cond_wait(condition, mutex);
                }
            }
            assert_eq!(libc::pthread_mutex_unlock(mutex), 0);
        }
    };
    let child = fork(|| count(4));
    let threads: Vec<_> = (0..4).map(|mine| thread::spawn(move || count(mine))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let status = join(child);
    // SAFETY: as above.
    let value = unsafe { (*ptr::with_exposed_provenance::<Memory>(memory)).value.load(SeqCst) };
    println!("counted: {value}, child: {status}");
}

/// Tries to take a robust mutex for a while, of which the owner has ended. Says whether the end was noticed.
fn take(mutex: *mut pthread_mutex_t) -> &'static str {
    for _ in 0..100 {
        // The OS thread of a joined thread may live a little longer.
        thread::sleep(super::MILLI);
        // SAFETY: the callers' mutex.
        match unsafe { libc::pthread_mutex_trylock(mutex) } {
            libc::EBUSY => {}
            libc::EOWNERDEAD => return "noticed",
            error => panic!("{error}"),
        }
    }
    "not noticed"
}

/// A thread ends with a robust mutex, and a child does.
pub fn owner_ends() {
    // SAFETY: the memory stays.
    let mutex = || unsafe { (&raw mut (*memory(true)).mutex).expose_provenance() };
    let of = |mutex: usize| ptr::with_exposed_provenance_mut(mutex);
    let one = mutex();
    // SAFETY: the mutex is one.
    thread::spawn(move || assert_eq!(unsafe { libc::pthread_mutex_lock(of(one)) }, 0)).join().unwrap();
    let other = mutex();
    // SAFETY: as above.
    let child = fork(|| assert_eq!(unsafe { libc::pthread_mutex_lock(of(other)) }, 0));
    let status = join(child);
    println!("thread: {}, child: {status} {}", take(of(one)), take(of(other)));
}
