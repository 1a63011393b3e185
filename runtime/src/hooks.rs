//! `interpose!` and `sim!`: the lines by which a program gives names of libc to this crate. Here are all of
//! these names.
//!
//! A feature compiles the functions, under names that no linker knows. The macro defines libc's names in the
//! program that has the line, each as one jump. An executable's own definition of a function of libc is found
//! first, by Rust code as well as by C libraries. So a dependency that turns a feature on changes nothing in
//! a program without the line.
//!
//! The names are weak, and defined once in each file of assembly, so the line may stand in several modules of
//! a program. A jump has no frame, so a call like `vfork`, made by `syscall`, returns twice to its caller.
//!
//! Rejected: *functions in the program that call ours*. They need the signatures once more, and have frames.
//! *Definitions in this crate that do nothing until a line switches them on*: then the names are this crate's
//! in the whole process.

/// Lets libc's blocking calls park green threads in this program, also those of other crates and of C
/// libraries. The line stands in the program, once, outside of functions. The feature `interpose` alone
/// changes nothing.
///
/// The page [`docs::interpose`](crate::docs::interpose) says which calls these are. It has an effect on Linux
/// with glibc, on x86-64 and 64-bit Arm; elsewhere the line does not compile.
///
/// Set [`ThreadLocals::OfGreenThread`](crate::ThreadLocals::OfGreenThread) with it: without that,
/// green threads that share an OS thread are one thread to std's channels.
///
/// With `runtime::interpose!(threads)` all threads of the program are green threads, also those of
/// `std::thread::spawn`, and `main` itself: see the page [`docs::threads`](crate::docs::threads).
///
/// With `runtime::interpose!(sim)` the program can run [simulations](mod@crate::sim), too, in which threads
/// and sockets of std are simulated: it stands for this line and [`sim!`](macro@crate::sim), which cannot
/// stand beside each other.
///
/// ```standalone_crate
/// use std::time::{Duration, Instant};
///
/// # #[cfg(all(target_os = "linux", target_env = "gnu", not(target_arch = "x86")))]
/// runtime::interpose!();
///
/// // On one P, a hundred sleeps of std at the same time.
/// let runtime = runtime::Builder::new().procs(1).build()?;
/// let sleep = || std::thread::sleep(Duration::from_millis(50));
/// let start = Instant::now();
/// runtime.block_on(|| {
///     let sleepers: Vec<_> = (0..100).map(|_| runtime::spawn(sleep)).collect();
///     sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
/// });
/// # #[cfg(all(target_os = "linux", target_env = "gnu"))]
/// assert!(start.elapsed() < Duration::from_secs(2));
/// # std::io::Result::Ok(())
/// ```
#[cfg(feature = "interpose")]
#[macro_export]
macro_rules! interpose {
    () => {
        $crate::__interposed! { interposed __define syscall = $crate::hooks::functions::numbered::interposed; }
    };
    (threads) => {
        $crate::__interposed! { interposed __threaded syscall = $crate::hooks::functions::numbered::interposed; }
    };
    // The library of `runtime/preload`, which exports the names.
    (preload) => {
        $crate::__interposed! { interposed __preloaded syscall = $crate::hooks::functions::numbered::interposed; }
    };
    (sim) => {
        $crate::__interposed! { both __simulated_threads syscall = $crate::hooks::functions::both::syscall; }
    };
}

/// Lets this program run [simulations](mod@crate::sim): clocks, random bytes and other things of libc then
/// answer from the simulation, to the code in it. The line stands in the program or test that has
/// simulations, outside of functions. The feature `sim` alone changes nothing.
///
/// `#[runtime::test(sim)]` contains the line. A program with [`interpose!`](crate::interpose) has
/// `runtime::interpose!(sim)` in the place of both.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// runtime::sim!();
///
/// let slept = runtime::sim::run(1, || {
///     let start = Instant::now();
///     runtime::sleep(Duration::from_secs(3600));
///     start.elapsed()
/// });
/// assert_eq!(slept, Duration::from_secs(3600));
/// ```
#[cfg(feature = "sim")]
#[macro_export]
macro_rules! sim {
    () => {
        $crate::__simulated! {
            execv = $crate::hooks::functions::simulated::process::execv;
            execve = $crate::hooks::functions::simulated::process::execve;
            execveat = $crate::hooks::functions::simulated::process::execveat;
            execvp = $crate::hooks::functions::simulated::process::execvp;
            execvpe = $crate::hooks::functions::simulated::process::execvpe;
            fexecve = $crate::hooks::functions::simulated::process::fexecve;
            popen = $crate::hooks::functions::simulated::process::popen;
            posix_spawn = $crate::hooks::functions::simulated::process::posix_spawn;
            posix_spawnp = $crate::hooks::functions::simulated::process::posix_spawnp;
            raise = $crate::hooks::functions::simulated::process::raise;
            system = $crate::hooks::functions::simulated::process::system;
            clock_nanosleep = $crate::hooks::functions::simulated::waits::clock_nanosleep;
            epoll_wait = $crate::hooks::functions::simulated::waits::epoll_wait;
            getaddrinfo = $crate::hooks::functions::simulated::waits::getaddrinfo;
            gethostbyname = $crate::hooks::functions::simulated::waits::gethostbyname;
            nanosleep = $crate::hooks::functions::simulated::waits::nanosleep;
            poll = $crate::hooks::functions::simulated::waits::poll;
            sleep = $crate::hooks::functions::simulated::waits::sleep;
            socket = $crate::hooks::functions::simulated::waits::socket;
            thrd_sleep = $crate::hooks::functions::simulated::waits::thrd_sleep;
            usleep = $crate::hooks::functions::simulated::waits::usleep;
            pthread_create = $crate::hooks::functions::simulated::pthread_create;
            syscall = $crate::hooks::functions::numbered::simulated;
        }
    };
}

/// The functions, under names that the macros know.
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[doc(hidden)]
pub mod functions {
    #[cfg(feature = "interpose")]
    pub mod interposed {
        pub use interpose::accept::{accept, accept4};
        pub use interpose::checked::{__poll_chk, __ppoll_chk, __read_chk, __recv_chk, __recvfrom_chk};
        pub use interpose::close::{close, close_range, closefrom, dup2, dup3};
        pub use interpose::connect::connect;
        pub use interpose::mode::{dup, fcntl, fcntl64, ioctl, setsockopt, socket, socketpair};
        pub use interpose::names::getaddrinfo;
        pub use interpose::poll::{epoll_wait, poll, ppoll};
        pub use interpose::process::{_Fork, clone, vfork};
        pub use interpose::read::{preadv2, preadv64v2, read, readv, recv, recvfrom, recvmsg};
        pub use interpose::select::{pselect, select};
        pub use interpose::sleep::{clock_nanosleep, nanosleep, sleep, thrd_sleep, usleep};
        pub use interpose::write::{pwritev2, pwritev64v2, send, sendmsg, sendto, write, writev};

        pub mod threads {
            pub use crate::interposed::of_libc;
            pub use interpose::threads::attributes::{
                affinity, cpu_clock, kill, policy, raise_signal, sched_getscheduler, sched_setaffinity,
                sched_setscheduler, set_affinity, set_policy, set_priority, sigqueue,
            };
            pub use interpose::threads::c11::{
                broadcast_c11, create_c11, current_c11, destroy_c11, detach_c11, exit_c11, join_c11,
                lock_c11, signal_c11, timed_lock_c11, timed_wait_c11, unlock_c11, wait_c11, yield_c11,
            };
            pub use interpose::threads::cancel::{
                cancel, register, set_cancel_state, set_cancel_type, test_cancel, unregister, unwind_next,
            };
            pub use interpose::threads::children::{
                exec, exec_at, exec_file, exec_in_path, exec_in_path_with, exec_with, open_command,
                run_command, spawn, spawn_in_path,
            };
            pub use interpose::threads::create::{create, exit};
            pub use interpose::threads::join::{clock_join, detach, join, timed_join, try_join};
            pub use interpose::threads::locks::barrier::{destroy_barrier, init_barrier, wait_barrier};
            pub use interpose::threads::locks::condition::{
                broadcast, clock_wait, destroy, signal, timed_wait, wait,
            };
            pub use interpose::threads::locks::mutex::{clock_lock, lock, timed_lock, unlock};
            pub use interpose::threads::locks::once::{call_once, once};
            pub use interpose::threads::locks::rwlock::{
                clock_read, clock_write, read, timed_read, timed_write, unlock_rwlock, write,
            };
            pub use interpose::threads::locks::semaphore::{
                clock_wait_semaphore, post, timed_wait_semaphore, wait_semaphore,
            };
            pub use interpose::threads::locks::spin::spin_lock;
            pub use interpose::threads::masks::{pause, pending, process_mask, suspend, thread_mask};
            pub use interpose::threads::names::{current, get_name, set_name};
            pub use interpose::threads::signals::{timed_wait_signal, wait_signal, wait_signal_info};
            pub use interpose::threads::yields::sched_yield;
        }
    }
    #[cfg(feature = "sim")]
    pub mod simulated {
        pub use sim::clock::{clock_gettime, getentropy, getrandom, gettimeofday, pthread_create, time};
        pub use sim::disk::metadata::statx;
        pub use sim::escapes::{files, open, open64, process, waits};
    }
    #[cfg(all(feature = "interpose", feature = "sim"))]
    pub mod both;
    pub use super::syscall as numbered;
}

#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub mod syscall;

/// Defines libc's names that `interpose` has, by the macro `define`, with `more`. The functions are those of
/// the module `from`.
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __interposed {
    ($from:ident $define:ident $($more:tt)*) => {
        $crate::$define! {
            accept = $crate::hooks::functions::$from::accept;
            accept4 = $crate::hooks::functions::$from::accept4;
            clone = $crate::hooks::functions::interposed::clone;
            close = $crate::hooks::functions::$from::close;
            close_range = $crate::hooks::functions::$from::close_range;
            closefrom = $crate::hooks::functions::$from::closefrom;
            connect = $crate::hooks::functions::$from::connect;
            dup = $crate::hooks::functions::$from::dup;
            dup2 = $crate::hooks::functions::$from::dup2;
            dup3 = $crate::hooks::functions::$from::dup3;
            epoll_wait = $crate::hooks::functions::$from::epoll_wait;
            fcntl = $crate::hooks::functions::$from::fcntl;
            fcntl64 = $crate::hooks::functions::$from::fcntl64;
            getaddrinfo = $crate::hooks::functions::$from::getaddrinfo;
            ioctl = $crate::hooks::functions::$from::ioctl;
            poll = $crate::hooks::functions::$from::poll;
            ppoll = $crate::hooks::functions::$from::ppoll;
            pselect = $crate::hooks::functions::$from::pselect;
            select = $crate::hooks::functions::$from::select;
            nanosleep = $crate::hooks::functions::$from::nanosleep;
            clock_nanosleep = $crate::hooks::functions::$from::clock_nanosleep;
            sleep = $crate::hooks::functions::$from::sleep;
            thrd_sleep = $crate::hooks::functions::$from::thrd_sleep;
            usleep = $crate::hooks::functions::$from::usleep;
            vfork = $crate::hooks::functions::interposed::vfork;
            _Fork = $crate::hooks::functions::interposed::_Fork;
            preadv2 = $crate::hooks::functions::$from::preadv2;
            preadv64v2 = $crate::hooks::functions::$from::preadv64v2;
            pwritev2 = $crate::hooks::functions::$from::pwritev2;
            pwritev64v2 = $crate::hooks::functions::$from::pwritev64v2;
            read = $crate::hooks::functions::$from::read;
            readv = $crate::hooks::functions::$from::readv;
            recv = $crate::hooks::functions::$from::recv;
            recvfrom = $crate::hooks::functions::$from::recvfrom;
            recvmsg = $crate::hooks::functions::$from::recvmsg;
            send = $crate::hooks::functions::$from::send;
            sendmsg = $crate::hooks::functions::$from::sendmsg;
            sendto = $crate::hooks::functions::$from::sendto;
            setsockopt = $crate::hooks::functions::$from::setsockopt;
            socket = $crate::hooks::functions::$from::socket;
            socketpair = $crate::hooks::functions::$from::socketpair;
            write = $crate::hooks::functions::$from::write;
            writev = $crate::hooks::functions::$from::writev;
            __poll_chk = $crate::hooks::functions::$from::__poll_chk;
            __ppoll_chk = $crate::hooks::functions::$from::__ppoll_chk;
            __read_chk = $crate::hooks::functions::$from::__read_chk;
            __recv_chk = $crate::hooks::functions::$from::__recv_chk;
            __recvfrom_chk = $crate::hooks::functions::$from::__recvfrom_chk;
            $($more)*
        }
    };
}

/// Defines libc's names that simulations have, with `more`.
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __simulated {
    ($($more:tt)*) => {
        $crate::__define! {
            clock_gettime = $crate::hooks::functions::simulated::clock_gettime;
            getentropy = $crate::hooks::functions::simulated::getentropy;
            getrandom = $crate::hooks::functions::simulated::getrandom;
            gettimeofday = $crate::hooks::functions::simulated::gettimeofday;
            open = $crate::hooks::functions::simulated::open;
            open64 = $crate::hooks::functions::simulated::open64;
            statx = $crate::hooks::functions::simulated::statx;
            time = $crate::hooks::functions::simulated::time;
            access = $crate::hooks::functions::simulated::files::access;
            chdir = $crate::hooks::functions::simulated::files::chdir;
            chmod = $crate::hooks::functions::simulated::files::chmod;
            chown = $crate::hooks::functions::simulated::files::chown;
            creat = $crate::hooks::functions::simulated::files::creat;
            creat64 = $crate::hooks::functions::simulated::files::creat64;
            faccessat = $crate::hooks::functions::simulated::files::faccessat;
            fchmodat = $crate::hooks::functions::simulated::files::fchmodat;
            fchownat = $crate::hooks::functions::simulated::files::fchownat;
            fopen = $crate::hooks::functions::simulated::files::fopen;
            fopen64 = $crate::hooks::functions::simulated::files::fopen64;
            fstatat = $crate::hooks::functions::simulated::files::fstatat;
            fstatat64 = $crate::hooks::functions::simulated::files::fstatat64;
            lchown = $crate::hooks::functions::simulated::files::lchown;
            link = $crate::hooks::functions::simulated::files::link;
            linkat = $crate::hooks::functions::simulated::files::linkat;
            lstat = $crate::hooks::functions::simulated::files::lstat;
            lstat64 = $crate::hooks::functions::simulated::files::lstat64;
            mkdir = $crate::hooks::functions::simulated::files::mkdir;
            mkdirat = $crate::hooks::functions::simulated::files::mkdirat;
            mkdtemp = $crate::hooks::functions::simulated::files::mkdtemp;
            mkfifo = $crate::hooks::functions::simulated::files::mkfifo;
            mkostemp = $crate::hooks::functions::simulated::files::mkostemp;
            mkostemp64 = $crate::hooks::functions::simulated::files::mkostemp64;
            mkstemp = $crate::hooks::functions::simulated::files::mkstemp;
            mkstemp64 = $crate::hooks::functions::simulated::files::mkstemp64;
            openat = $crate::hooks::functions::simulated::files::openat;
            openat64 = $crate::hooks::functions::simulated::files::openat64;
            opendir = $crate::hooks::functions::simulated::files::opendir;
            readlink = $crate::hooks::functions::simulated::files::readlink;
            readlinkat = $crate::hooks::functions::simulated::files::readlinkat;
            realpath = $crate::hooks::functions::simulated::files::realpath;
            remove = $crate::hooks::functions::simulated::files::remove;
            rename = $crate::hooks::functions::simulated::files::rename;
            renameat = $crate::hooks::functions::simulated::files::renameat;
            renameat2 = $crate::hooks::functions::simulated::files::renameat2;
            rmdir = $crate::hooks::functions::simulated::files::rmdir;
            stat = $crate::hooks::functions::simulated::files::stat;
            stat64 = $crate::hooks::functions::simulated::files::stat64;
            statfs = $crate::hooks::functions::simulated::files::statfs;
            statfs64 = $crate::hooks::functions::simulated::files::statfs64;
            statvfs = $crate::hooks::functions::simulated::files::statvfs;
            statvfs64 = $crate::hooks::functions::simulated::files::statvfs64;
            symlink = $crate::hooks::functions::simulated::files::symlink;
            symlinkat = $crate::hooks::functions::simulated::files::symlinkat;
            truncate = $crate::hooks::functions::simulated::files::truncate;
            truncate64 = $crate::hooks::functions::simulated::files::truncate64;
            unlink = $crate::hooks::functions::simulated::files::unlink;
            unlinkat = $crate::hooks::functions::simulated::files::unlinkat;
            utimensat = $crate::hooks::functions::simulated::files::utimensat;
            utimes = $crate::hooks::functions::simulated::files::utimes;
            alarm = $crate::hooks::functions::simulated::process::alarm;
            clearenv = $crate::hooks::functions::simulated::process::clearenv;
            fork = $crate::hooks::functions::simulated::process::fork;
            kill = $crate::hooks::functions::simulated::process::kill;
            killpg = $crate::hooks::functions::simulated::process::killpg;
            putenv = $crate::hooks::functions::simulated::process::putenv;
            setenv = $crate::hooks::functions::simulated::process::setenv;
            setitimer = $crate::hooks::functions::simulated::process::setitimer;
            sigqueue = $crate::hooks::functions::simulated::process::sigqueue;
            timer_create = $crate::hooks::functions::simulated::process::timer_create;
            unsetenv = $crate::hooks::functions::simulated::process::unsetenv;
            $($more)*
        }
    };
}

/// Defines libc's names by which threads are green threads in the program, with `more`.
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __threaded {
    ($($more:tt)*) => {
        $crate::__with_threads! { __define __libc_start_main = $crate::hooks::functions::interposed::threads::of_libc; $($more)* }
    };
}

/// Defines libc's names by which threads that start in a simulation are green threads of it, with `more`.
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __simulated_threads {
    ($($more:tt)*) => {
        $crate::__with_threads! {
            __simulated
            bind = $crate::hooks::functions::both::bind;
            copy_file_range = $crate::hooks::functions::both::copy_file_range;
            epoll_create = $crate::hooks::functions::both::epoll_create;
            epoll_create1 = $crate::hooks::functions::both::epoll_create1;
            epoll_ctl = $crate::hooks::functions::both::epoll_ctl;
            epoll_pwait = $crate::hooks::functions::both::epoll_pwait;
            epoll_pwait2 = $crate::hooks::functions::both::epoll_pwait2;
            eventfd = $crate::hooks::functions::both::eventfd;
            eventfd_read = $crate::hooks::functions::both::eventfd_read;
            eventfd_write = $crate::hooks::functions::both::eventfd_write;
            gethostbyname = $crate::hooks::functions::both::gethostbyname;
            getpeername = $crate::hooks::functions::both::getpeername;
            getsockname = $crate::hooks::functions::both::getsockname;
            getsockopt = $crate::hooks::functions::both::getsockopt;
            listen = $crate::hooks::functions::both::listen;
            recvmmsg = $crate::hooks::functions::both::recvmmsg;
            sendfile = $crate::hooks::functions::both::sendfile;
            sendfile64 = $crate::hooks::functions::both::sendfile64;
            sendmmsg = $crate::hooks::functions::both::sendmmsg;
            shutdown = $crate::hooks::functions::both::shutdown;
            splice = $crate::hooks::functions::both::splice;
            timerfd_create = $crate::hooks::functions::both::timerfd_create;
            timerfd_gettime = $crate::hooks::functions::both::timerfd_gettime;
            timerfd_settime = $crate::hooks::functions::both::timerfd_settime;
            $($more)*
        }
    };
}

/// Exports libc's names by which threads are green threads from a library, with `more`.
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __preloaded {
    ($($more:tt)*) => {
        $crate::__with_threads! { __export __libc_start_main = $crate::hooks::functions::interposed::threads::of_libc; $($more)* }
    };
}

/// Defines libc's names of threads and their locks by the macro `define`, with `more`.
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __with_threads {
    ($define:ident $($more:tt)*) => {
        $crate::$define! {
            call_once = $crate::hooks::functions::interposed::threads::call_once;
            cnd_broadcast = $crate::hooks::functions::interposed::threads::broadcast_c11;
            cnd_destroy = $crate::hooks::functions::interposed::threads::destroy_c11;
            cnd_signal = $crate::hooks::functions::interposed::threads::signal_c11;
            cnd_timedwait = $crate::hooks::functions::interposed::threads::timed_wait_c11;
            cnd_wait = $crate::hooks::functions::interposed::threads::wait_c11;
            mtx_lock = $crate::hooks::functions::interposed::threads::lock_c11;
            mtx_timedlock = $crate::hooks::functions::interposed::threads::timed_lock_c11;
            mtx_unlock = $crate::hooks::functions::interposed::threads::unlock_c11;
            pthread_barrier_destroy = $crate::hooks::functions::interposed::threads::destroy_barrier;
            pthread_barrier_init = $crate::hooks::functions::interposed::threads::init_barrier;
            pthread_barrier_wait = $crate::hooks::functions::interposed::threads::wait_barrier;
            pthread_cancel = $crate::hooks::functions::interposed::threads::cancel;
            pthread_setcancelstate = $crate::hooks::functions::interposed::threads::set_cancel_state;
            pthread_setcanceltype = $crate::hooks::functions::interposed::threads::set_cancel_type;
            pthread_testcancel = $crate::hooks::functions::interposed::threads::test_cancel;
            __pthread_register_cancel = $crate::hooks::functions::interposed::threads::register;
            __pthread_unregister_cancel = $crate::hooks::functions::interposed::threads::unregister;
            __pthread_unwind_next = $crate::hooks::functions::interposed::threads::unwind_next;
            pthread_clockjoin_np = $crate::hooks::functions::interposed::threads::clock_join;
            pthread_cond_broadcast = $crate::hooks::functions::interposed::threads::broadcast;
            pthread_cond_clockwait = $crate::hooks::functions::interposed::threads::clock_wait;
            pthread_cond_destroy = $crate::hooks::functions::interposed::threads::destroy;
            pthread_cond_signal = $crate::hooks::functions::interposed::threads::signal;
            pthread_cond_timedwait = $crate::hooks::functions::interposed::threads::timed_wait;
            pthread_cond_wait = $crate::hooks::functions::interposed::threads::wait;
            pthread_create = $crate::hooks::functions::interposed::threads::create;
            pthread_detach = $crate::hooks::functions::interposed::threads::detach;
            pthread_exit = $crate::hooks::functions::interposed::threads::exit;
            pthread_getaffinity_np = $crate::hooks::functions::interposed::threads::affinity;
            pthread_getcpuclockid = $crate::hooks::functions::interposed::threads::cpu_clock;
            pthread_getname_np = $crate::hooks::functions::interposed::threads::get_name;
            pthread_getschedparam = $crate::hooks::functions::interposed::threads::policy;
            pthread_join = $crate::hooks::functions::interposed::threads::join;
            pthread_kill = $crate::hooks::functions::interposed::threads::kill;
            pthread_mutex_clocklock = $crate::hooks::functions::interposed::threads::clock_lock;
            pthread_mutex_lock = $crate::hooks::functions::interposed::threads::lock;
            pthread_mutex_timedlock = $crate::hooks::functions::interposed::threads::timed_lock;
            pthread_mutex_unlock = $crate::hooks::functions::interposed::threads::unlock;
            pthread_once = $crate::hooks::functions::interposed::threads::once;
            pthread_rwlock_clockrdlock = $crate::hooks::functions::interposed::threads::clock_read;
            pthread_rwlock_clockwrlock = $crate::hooks::functions::interposed::threads::clock_write;
            pthread_rwlock_rdlock = $crate::hooks::functions::interposed::threads::read;
            pthread_rwlock_timedrdlock = $crate::hooks::functions::interposed::threads::timed_read;
            pthread_rwlock_timedwrlock = $crate::hooks::functions::interposed::threads::timed_write;
            pthread_rwlock_unlock = $crate::hooks::functions::interposed::threads::unlock_rwlock;
            pthread_rwlock_wrlock = $crate::hooks::functions::interposed::threads::write;
            pthread_self = $crate::hooks::functions::interposed::threads::current;
            pthread_setaffinity_np = $crate::hooks::functions::interposed::threads::set_affinity;
            pthread_setname_np = $crate::hooks::functions::interposed::threads::set_name;
            pthread_setschedparam = $crate::hooks::functions::interposed::threads::set_policy;
            pthread_setschedprio = $crate::hooks::functions::interposed::threads::set_priority;
            pthread_sigqueue = $crate::hooks::functions::interposed::threads::sigqueue;
            pthread_spin_lock = $crate::hooks::functions::interposed::threads::spin_lock;
            pthread_timedjoin_np = $crate::hooks::functions::interposed::threads::timed_join;
            pthread_tryjoin_np = $crate::hooks::functions::interposed::threads::try_join;
            sched_getscheduler = $crate::hooks::functions::interposed::threads::sched_getscheduler;
            sched_setaffinity = $crate::hooks::functions::interposed::threads::sched_setaffinity;
            sched_setscheduler = $crate::hooks::functions::interposed::threads::sched_setscheduler;
            sched_yield = $crate::hooks::functions::interposed::threads::sched_yield;
            sem_clockwait = $crate::hooks::functions::interposed::threads::clock_wait_semaphore;
            sem_post = $crate::hooks::functions::interposed::threads::post;
            sem_timedwait = $crate::hooks::functions::interposed::threads::timed_wait_semaphore;
            sem_wait = $crate::hooks::functions::interposed::threads::wait_semaphore;
            thrd_create = $crate::hooks::functions::interposed::threads::create_c11;
            thrd_current = $crate::hooks::functions::interposed::threads::current_c11;
            thrd_detach = $crate::hooks::functions::interposed::threads::detach_c11;
            thrd_exit = $crate::hooks::functions::interposed::threads::exit_c11;
            thrd_join = $crate::hooks::functions::interposed::threads::join_c11;
            thrd_yield = $crate::hooks::functions::interposed::threads::yield_c11;
            sigtimedwait = $crate::hooks::functions::interposed::threads::timed_wait_signal;
            sigwait = $crate::hooks::functions::interposed::threads::wait_signal;
            sigwaitinfo = $crate::hooks::functions::interposed::threads::wait_signal_info;
            pthread_sigmask = $crate::hooks::functions::interposed::threads::thread_mask;
            sigprocmask = $crate::hooks::functions::interposed::threads::process_mask;
            sigpending = $crate::hooks::functions::interposed::threads::pending;
            sigsuspend = $crate::hooks::functions::interposed::threads::suspend;
            pause = $crate::hooks::functions::interposed::threads::pause;
            raise = $crate::hooks::functions::interposed::threads::raise_signal;
            posix_spawn = $crate::hooks::functions::interposed::threads::spawn;
            posix_spawnp = $crate::hooks::functions::interposed::threads::spawn_in_path;
            system = $crate::hooks::functions::interposed::threads::run_command;
            popen = $crate::hooks::functions::interposed::threads::open_command;
            execve = $crate::hooks::functions::interposed::threads::exec_with;
            execv = $crate::hooks::functions::interposed::threads::exec;
            execvp = $crate::hooks::functions::interposed::threads::exec_in_path;
            execvpe = $crate::hooks::functions::interposed::threads::exec_in_path_with;
            execveat = $crate::hooks::functions::interposed::threads::exec_at;
            fexecve = $crate::hooks::functions::interposed::threads::exec_file;
            $($more)*
        }
    };
}

/// Defines functions of libc in the program, each as a jump to a function of this crate.
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __define {
    ($($name:ident = $function:path;)*) => {
        // A module, because assembly stands outside of functions and blocks.
        const _: () = {
            mod hooks {
                ::core::arch::global_asm!(
                    $(
                        ::core::concat!(".ifndef ", ::core::stringify!($name)),
                        ::core::concat!(".weak ", ::core::stringify!($name)),
                        ::core::concat!(".type ", ::core::stringify!($name), ", @function"),
                        ".p2align 4",
                        ::core::concat!(::core::stringify!($name), ":"),
                        ::core::concat!($crate::__jump!(), " {", ::core::stringify!($name), "}"),
                        ::core::concat!(".size ", ::core::stringify!($name), ", . - ", ::core::stringify!($name)),
                        ".endif",
                    )*
                    $($name = sym $function,)*
                );
            }
        };
    };
}

/// Exports functions of libc from a library, each as a jump to a function of this crate. (Names that only
/// assembly defines are not exported.)
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __export {
    ($($name:ident = $function:path;)*) => {
        const _: () = {
            mod hooks {
                $(
                    #[unsafe(naked)]
                    #[unsafe(no_mangle)]
                    pub unsafe extern "C" fn $name() {
                        ::core::arch::naked_asm!(
                            ::core::concat!($crate::__jump!(), " {function}"),
                            function = sym $function,
                        )
                    }
                )*
            }
        };
    };
}

/// The instruction that jumps.
#[cfg(target_arch = "x86_64")]
#[doc(hidden)]
#[macro_export]
macro_rules! __jump {
    () => {
        "jmp"
    };
}

/// The instruction that jumps.
#[cfg(target_arch = "aarch64")]
#[doc(hidden)]
#[macro_export]
macro_rules! __jump {
    () => {
        "b"
    };
}

/// Elsewhere the line is refused: calls that block would block their OS thread, and no reader of the program
/// would see why.
#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __interposed {
    ($($any:tt)*) => {
        ::core::compile_error! {
            "`interpose!` needs Linux with glibc on x86-64 or AArch64. If this program is also for other systems, write above \
             the line: #[cfg(all(target_os = \"linux\", target_env = \"gnu\", any(target_arch = \"x86_64\", target_arch = \"aarch64\")))]"
        }
    };
}

/// Elsewhere the line does nothing.
#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __simulated {
    ($($any:tt)*) => {};
}
