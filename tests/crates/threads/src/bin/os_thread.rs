//! Threads that ask the kernel's scheduler for something, and so keep an OS thread of their own. By the name
//! in the first argument. What is printed is the same for green threads and for OS threads.

use std::collections::HashSet;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use libc::{cpu_set_t, pthread_attr_t, pthread_t, sched_param};

runtime::interpose!(threads);

unsafe extern "C" {
    fn pthread_attr_setaffinity_np(attr: *mut pthread_attr_t, bytes: usize, set: *const cpu_set_t) -> c_int;
    fn pthread_attr_setinheritsched(attr: *mut pthread_attr_t, inherits: c_int) -> c_int;
    fn pthread_attr_setschedpolicy(attr: *mut pthread_attr_t, policy: c_int) -> c_int;
    fn pthread_attr_setschedparam(attr: *mut pthread_attr_t, parameters: *const sched_param) -> c_int;
    fn pthread_getcpuclockid(thread: pthread_t, clock: *mut libc::clockid_t) -> c_int;
    fn pthread_getschedparam(t: pthread_t, policy: *mut c_int, param: *mut sched_param) -> c_int;
}

const BYTES: usize = size_of::<cpu_set_t>();

fn own() -> pthread_t {
    // SAFETY: the call has no requirements.
    unsafe { libc::pthread_self() }
}

/// Returns the kernel's number of this OS thread.
fn os_thread() -> libc::pid_t {
    // SAFETY: the call has no requirements.
    unsafe { libc::gettid() }
}

/// Returns the processors of this OS thread, as the kernel has them.
fn of_os_thread() -> cpu_set_t {
    // SAFETY: all zeroes is a set, which the call fills.
    unsafe {
        let mut set = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, BYTES, &mut set), 0);
        set
    }
}

/// Returns the processors of a thread, as pthread has them.
fn of_thread(thread: pthread_t) -> cpu_set_t {
    // SAFETY: as above; the thread lives.
    unsafe {
        let mut set = std::mem::zeroed();
        assert_eq!(libc::pthread_getaffinity_np(thread, BYTES, &mut set), 0);
        set
    }
}

fn count(set: &cpu_set_t) -> c_int {
    // SAFETY: the call reads the set.
    unsafe { libc::CPU_COUNT(set) }
}

fn are_equal(one: &cpu_set_t, other: &cpu_set_t) -> bool {
    // SAFETY: as above.
    unsafe { libc::CPU_EQUAL(one, other) }
}

/// Returns a set with the first processor of `all`.
fn first_of(all: &cpu_set_t) -> cpu_set_t {
    // SAFETY: all zeroes is a set.
    unsafe {
        let mut one = std::mem::zeroed();
        let mut numbers = 0..libc::CPU_SETSIZE as usize;
        libc::CPU_SET(numbers.find(|&number| libc::CPU_ISSET(number, all)).unwrap(), &mut one);
        one
    }
}

/// Sleeps often. Returns the OS threads on which the caller was.
fn visited() -> HashSet<libc::pid_t> {
    (0..60)
        .map(|_| {
            thread::sleep(Duration::from_micros(300));
            thread::yield_now();
            os_thread()
        })
        .collect()
}

/// Runs `keeps` in a thread beside 20 others. Returns `true` if it had an OS thread of its own after `keeps`,
/// and no other thread had that.
fn is_alone(name: &str, keeps: fn()) -> bool {
    static OVER: AtomicBool = AtomicBool::new(false);
    OVER.store(false, SeqCst);
    let ((begun, begins), (over, ends)) = (mpsc::channel(), mpsc::channel::<()>());
    let one = thread::Builder::new().name(name.into()).spawn(move || {
        keeps();
        begun.send(os_thread()).unwrap();
        let visited = visited();
        OVER.store(true, SeqCst);
        // Others may have its OS thread after its end.
        ends.recv().unwrap_err();
        visited
    });
    let its = begins.recv().unwrap();
    let others: Vec<_> = (0..20)
        .map(|_| {
            thread::spawn(|| {
                let mut all = HashSet::new();
                while !OVER.load(SeqCst) {
                    all.extend(visited());
                }
                all
            })
        })
        .collect();
    let beside = others.into_iter().flat_map(|other| other.join().unwrap()).collect::<HashSet<_>>();
    drop(over);
    let visited = one.unwrap().join().unwrap();
    visited == HashSet::from([its]) && !beside.contains(&its)
}

/// Threads on all OS threads of the process see all processors, and the usual policy.
fn nothing_is_left(all: &cpu_set_t) -> bool {
    let look = || {
        (0..40)
            .map(|_| {
                thread::spawn(|| {
                    thread::sleep(Duration::from_millis(1));
                    // SAFETY: the call has no requirements.
                    (of_os_thread(), unsafe { libc::sched_getscheduler(0) })
                })
            })
            .collect::<Vec<_>>()
    };
    look().into_iter().all(|thread| {
        let (set, policy) = thread.join().unwrap();
        are_equal(&set, all) && policy == libc::SCHED_OTHER
    })
}

/// A thread asks for one processor, by a function of pthread or by one of the system.
fn processors() {
    let all = of_os_thread();
    for by_pthread in [true, false] {
        let asks: fn() = if by_pthread {
            || {
                let one = first_of(&of_os_thread());
                // SAFETY: the set is this function's.
                println!("{}", unsafe { libc::pthread_setaffinity_np(own(), BYTES, &one) });
                println!("{} {}", count(&of_thread(own())), count(&of_os_thread()));
            }
        } else {
            || {
                let one = first_of(&of_os_thread());
                // SAFETY: as above.
                println!("{}", unsafe { libc::sched_setaffinity(0, BYTES, &one) });
                println!("{} {}", count(&of_thread(own())), count(&of_os_thread()));
            }
        };
        println!("alone: {}", is_alone("one", asks));
        println!("nothing is left: {}", nothing_is_left(&all));
    }
    // SAFETY: all zeroes is a set, without a processor.
    let refused = || unsafe {
        let none = std::mem::zeroed();
        assert_eq!(libc::sched_setaffinity(0, BYTES, &none), -1);
        std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
            && libc::pthread_setaffinity_np(own(), BYTES, &none) == libc::EINVAL
    };
    println!("no processor: {}", thread::spawn(refused).join().unwrap());
}

/// A thread asks for a scheduling policy, by the function of the system.
fn policy() {
    let all = of_os_thread();
    let asks = || {
        let parameters = sched_param { sched_priority: 0 };
        // SAFETY: the parameters are this function's.
        println!("{}", unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &parameters) });
        // SAFETY: the call has no requirements.
        println!("{}", unsafe { libc::sched_getscheduler(0) } == libc::SCHED_BATCH);
    };
    println!("alone: {}", is_alone("one", asks));
    println!("nothing is left: {}", nothing_is_left(&all));
}

/// Another thread changes the processors and the policy of a thread that keeps its OS thread.
fn by_others() {
    let (asked, asks) = mpsc::channel();
    let (over, ends) = mpsc::channel::<()>();
    let all = of_os_thread();
    let kept = thread::spawn(move || {
        // SAFETY: the set is this function's.
        unsafe { libc::pthread_setaffinity_np(own(), BYTES, &first_of(&all)) };
        asked.send(own()).unwrap();
        ends.recv().unwrap_err();
        // SAFETY: the call has no requirements.
        let policy = unsafe { libc::sched_getscheduler(0) };
        println!("{} {}", are_equal(&of_os_thread(), &all), policy == libc::SCHED_BATCH);
    });
    let thread = asks.recv().unwrap();
    println!("{}", count(&of_thread(thread)));
    let (mut policy, mut parameters) = (-1, sched_param { sched_priority: 0 });
    let mut clock = 0;
    // SAFETY: the thread lives, and the places are this function's.
    unsafe {
        println!("{}", libc::pthread_setaffinity_np(thread, BYTES, &all));
        println!("{}", libc::pthread_setschedparam(thread, libc::SCHED_BATCH, &parameters));
        println!("{}", pthread_getschedparam(thread, &mut policy, &mut parameters));
        println!("{}", policy == libc::SCHED_BATCH);
        println!("{}", pthread_getcpuclockid(thread, &mut clock));
        let mut time = libc::timespec { tv_sec: -1, tv_nsec: -1 };
        println!("{} {}", libc::clock_gettime(clock, &mut time), time.tv_sec >= 0);
    }
    drop(over);
    kept.join().unwrap();
    println!("nothing is left: {}", nothing_is_left(&all));
}

/// Attributes ask for a processor, for none, or for a policy.
fn attributes() {
    extern "C" fn counts(argument: *mut c_void) -> *mut c_void {
        // SAFETY: the caller waits for this thread, and its argument is such a place.
        let seen = unsafe { &mut *argument.cast::<(c_int, HashSet<libc::pid_t>)>() };
        *seen = (count(&of_os_thread()), visited());
        argument
    }
    let all = of_os_thread();
    let create = |attr: *mut pthread_attr_t| {
        let (mut thread, mut seen) = (0, (0, HashSet::new()));
        let place: *mut (c_int, HashSet<libc::pid_t>) = &mut seen;
        // SAFETY: the place lives until the thread is joined.
        unsafe {
            let error = libc::pthread_create(&mut thread, attr, counts, place.cast());
            if error == 0 {
                assert_eq!(libc::pthread_join(thread, ptr::null_mut()), 0);
            }
            (error, (*place).0, (*place).1.len())
        }
    };
    // SAFETY: the first call makes the attributes, and the sets are this function's.
    unsafe {
        let mut attr = MaybeUninit::uninit();
        libc::pthread_attr_init(attr.as_mut_ptr());
        let attr = attr.as_mut_ptr();
        println!("one: {}", pthread_attr_setaffinity_np(attr, BYTES, &first_of(&all)));
        println!("one: {:?}", create(attr));
        println!("none: {}", pthread_attr_setaffinity_np(attr, BYTES, &std::mem::zeroed()));
        println!("none: {}", create(attr).0 == libc::EINVAL);
        pthread_attr_setaffinity_np(attr, BYTES, &all);
        println!("all: {} {}", create(attr).0, create(attr).1 == count(&all));
        pthread_attr_setinheritsched(attr, 1);
        pthread_attr_setschedpolicy(attr, libc::SCHED_RR);
        pthread_attr_setschedparam(attr, &sched_param { sched_priority: 1 });
        // As the system says: only some users may.
        println!("real time: {}", create(attr).0);
        libc::pthread_attr_destroy(attr);
    }
    println!("nothing is left: {}", nothing_is_left(&all));
}

/// `RUNTIME_OS_THREADS` has the name of one thread, or of this program.
fn named() {
    println!("{}", is_alone("kept 1", || {}));
    let comm = |id: libc::pid_t| std::fs::read_to_string(format!("/proc/self/task/{id}/comm"));
    let named = thread::Builder::new().name("kept 2".into()).spawn(move || (os_thread(), comm(os_thread())));
    let (id, name) = named.unwrap().join().unwrap();
    println!("{:?} {}", name.unwrap(), comm(id).is_ok_and(|name| name == "kept 2\n"));
}

/// A pinned thread yields.
fn pinned() {
    let _pinned = runtime::thread::pin();
    (0..1000).for_each(|_| thread::yield_now());
    println!("has yielded");
}

fn main() {
    let program = std::env::args().nth(1).expect("the name of a program");
    match program.as_str() {
        "processors" => processors(),
        "policy" => policy(),
        "by-others" => by_others(),
        "attributes" => attributes(),
        "named" => named(),
        "pinned" => pinned(),
        _ => panic!("no program {program:?}"),
    }
}
