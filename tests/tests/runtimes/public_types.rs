//! Each public type of the runtime: whether it is `Send`, `Sync`, `UnwindSafe` and `RefUnwindSafe`. A change
//! of one of these would break programs.
//!
//! A type that replaces one of std, `parking_lot` or tokio has what the replaced type has, or more.

use std::io::Cursor;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};

struct Has<T: ?Sized>(PhantomData<T>);

/// The constants of the inherent implementations below take precedence over these.
trait No {
    const SEND: bool = false;
    const SYNC: bool = false;
    const UNWIND: bool = false;
    const REF_UNWIND: bool = false;
}

impl<T: ?Sized> No for Has<T> {}

impl<T: ?Sized + Send> Has<T> {
    const SEND: bool = true;
}

impl<T: ?Sized + Sync> Has<T> {
    const SYNC: bool = true;
}

impl<T: ?Sized + UnwindSafe> Has<T> {
    const UNWIND: bool = true;
}

impl<T: ?Sized + RefUnwindSafe> Has<T> {
    const REF_UNWIND: bool = true;
}

/// Returns the letters of the traits that a type has: Send, sYnc, Unwind safe, Ref unwind safe.
macro_rules! letters {
    ($type:ty) => {{
        let all = [
            (Has::<$type>::SEND, 'S'),
            (Has::<$type>::SYNC, 'Y'),
            (Has::<$type>::UNWIND, 'U'),
            (Has::<$type>::REF_UNWIND, 'R'),
        ];
        all.into_iter().filter(|(has, _)| *has).map(|(_, letter)| letter).collect::<String>()
    }};
}

macro_rules! table {
    ($($type:ty: $letters:literal;)*) => {{
        let wrong: Vec<_> = [$((stringify!($type), letters!($type), $letters)),*]
            .into_iter()
            .filter(|(_, has, expected)| has != expected)
            .map(|(name, has, expected)| format!("{name} has {has}, and not {expected}"))
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }};
}

macro_rules! as_much_as {
    ($($ours:ty, $theirs:ty;)*) => { $({
        let (ours, theirs) = (letters!($ours), letters!($theirs));
        let all = theirs.chars().all(|letter| ours.contains(letter));
        assert!(all, "{} has {ours}, {} has {theirs}", stringify!($ours), stringify!($theirs));
    })* };
}

#[test]
fn at_the_root_and_in_thread() {
    use runtime::thread::{self, *};
    table! {
        runtime::Builder: "SYUR";
        runtime::alloc::OfOsThread<std::alloc::System>: "SYUR";
        runtime::Runtime: "SYUR";
        runtime::Handle: "SYUR";
        runtime::Migration: "SYUR";
        runtime::ThreadLocals: "SYUR";
        runtime::Closure: "SYUR";
        runtime::Async: "SYUR";
        JoinHandle<u8>: "SYUR";
        AbortHandle: "SYUR";
        JoinError: "SYUR";
        JoinSet<u8>: "SYUR";
        JoinMap<u8, u8>: "SYUR";
        TrySpawnError<u8>: "SYUR";
        LocalSet: "UR";
        LocalEnterGuard: "UR";
        LocalJoinHandle<u8>: "SYUR";
        LocalJoinHandle<std::rc::Rc<u8>>: "UR";
        Thread: "SYUR";
        ThreadId: "SYUR";
        thread::Builder: "SYUR";
        PinGuard: "UR";
        Cancelled: "SYUR";
        LocalKey<u8>: "SYUR";
        AccessError: "SYUR";
        TaskLocal<u8>: "SYUR";
        TaskLocalError: "SYUR";
        TaskLocalFuture<u8, std::future::Ready<u8>>: "SYUR";
        Scope<'static, 'static>: "SYR";
        ScopedJoinHandle<'static, u8>: "SYUR";
        runtime::thread::TryScope<'static, 'static, u8>: "SYR";
        runtime::thread::TryJoinHandle<'static, u8>: "SYUR";
    }
    as_much_as! {
        JoinHandle<u8>, std::thread::JoinHandle<u8>;
        Thread, std::thread::Thread;
        thread::Builder, std::thread::Builder;
        ScopedJoinHandle<'static, u8>, std::thread::ScopedJoinHandle<'static, u8>;
        Scope<'static, 'static>, std::thread::Scope<'static, 'static>;
    }
}

#[test]
fn in_channel_and_time() {
    use runtime::channel::*;
    use runtime::time::{DelayQueue, Elapsed, Interval, MissedTickBehavior, Sleep, Ticker, Timer};
    table! {
        Sender<u8>: "SYUR";
        Receiver<u8>: "SYUR";
        Iter<'static, u8>: "SYUR";
        TryIter<'static, u8>: "SYUR";
        IntoIter<u8>: "SYUR";
        Permit<'static, u8>: "SYUR";
        OwnedPermit<u8>: "SYUR";
        WeakSender<u8>: "SYUR";
        Select<'static>: "SY";
        SelectedOperation<'static>: "";
        SendError<u8>: "SYUR";
        TrySendError<u8>: "SYUR";
        SendTimeoutError<u8>: "SYUR";
        RecvError: "SYUR";
        TryRecvError: "SYUR";
        RecvTimeoutError: "SYUR";
        TrySelectError: "SYUR";
        SelectTimeoutError: "SYUR";
        TryReadyError: "SYUR";
        ReadyTimeoutError: "SYUR";
        Elapsed: "SYUR";
        MissedTickBehavior: "SYUR";
        Sleep: "SYUR";
        Interval: "SYUR";
        DelayQueue<u8>: "SYUR";
        runtime::time::delay_queue::Key: "SYUR";
        runtime::time::delay_queue::Expired<u8>: "SYUR";
        Ticker: "SYUR";
        Timer: "SYUR";
    }
}

#[test]
fn in_context_and_metrics() {
    use runtime::context::*;
    table! {
        Context: "SYUR";
        ContextError: "SYUR";
        CancelOnDrop: "SYUR";
        CancelCauseOnDrop: "SYUR";
        AfterFunc: "SYUR";
        Ended: "SYUR";
        runtime::metrics::Snapshot: "SYUR";
        runtime::metrics::Rescue: "SYUR";
        runtime::metrics::Hog: "SYUR";
        runtime::metrics::HogPlace: "SYUR";
        runtime::metrics::LateWake: "SYUR";
        runtime::metrics::AtPlace: "SYUR";
    }
}

#[test]
fn in_trace() {
    use runtime::trace::*;
    table! {
        Cause: "SYUR";
        Event: "SYUR";
        Snapshot: "SYUR";
        Text: "SYUR";
        runtime::profile::Waits: "SYUR";
        What: "SYUR";
    }
}

#[test]
#[cfg(feature = "perfetto")]
fn in_streams_of_traces() {
    use runtime::trace::*;
    table! {
        Stream: "SYUR";
        StreamBuilder: "SYUR";
    }
}

#[test]
fn in_dump() {
    use runtime::dump::*;
    table! {
        Deadlock: "SYUR";
        DeadlockKind: "SYUR";
        DeadlockMember: "SYUR";
        Frame: "SYUR";
        GreenThread: "SYUR";
        Object: "SYUR";
        Place: "SYUR";
        Reason: "SYUR";
        State: "SYUR";
        Wait: "SYUR";
    }
}

#[test]
fn in_sync() {
    use runtime::sync::*;
    table! {
        Mutex<u8>: "SYU";
        MutexGuard<'static, u8>: "SY";
        FairMutex<u8>: "SYU";
        ReentrantMutex<u8>: "SYU";
        RwLock<u8>: "SYU";
        RwLockReadGuard<'static, u8>: "SY";
        RwLockWriteGuard<'static, u8>: "SY";
        RecursiveRwLock<u8>: "SYU";
        RawMutex: "SYUR";
        RawFairMutex: "SYUR";
        RawRwLock: "SYUR";
        RawThreadId: "SYUR";
        RawCondvar: "SYUR";
        LockFuture<'static, RawMutex, u8>: "SY";
        ReadFuture<'static, false, u8>: "SY";
        WriteFuture<'static, false, u8>: "SY";
        UpgradableReadFuture<'static, false, u8>: "SY";
        LockArcFuture<RawMutex, u8>: "SY";
        OwnedMutexGuard<RawMutex, u8>: "SY";
        ReadArcFuture<false, u8>: "SY";
        WriteArcFuture<false, u8>: "SY";
        UpgradableReadArcFuture<false, u8>: "SY";
        Condvar: "SYUR";
        Once: "SYUR";
        OnceState: "SYUR";
        Barrier: "SYUR";
        BarrierWaitResult: "SYUR";
        OnceLock<u8>: "SYUR";
        LazyLock<u8>: "SYUR";
        WaitGroup: "SYUR";
        Semaphore: "SYUR";
        SemaphorePermit<'static>: "SYUR";
        OwnedSemaphorePermit: "SYUR";
        AcquireError: "SYUR";
        TryAcquireError: "SYUR";
        Notify: "SYUR";
        Notified<'static>: "SY";
        OwnedNotified: "SY";
        OnceCell<u8>: "SYUR";
        SetError<u8>: "SYUR";
        oneshot::Sender<u8>: "SYUR";
        oneshot::Receiver<u8>: "SYUR";
        oneshot::error::RecvError: "SYUR";
        oneshot::error::TryRecvError: "SYUR";
        watch::Sender<u8>: "SYUR";
        watch::Receiver<u8>: "SYUR";
        watch::Ref<'static, u8>: "SY";
        watch::error::SendError<u8>: "SYUR";
        broadcast::Sender<u8>: "SYUR";
        broadcast::Receiver<u8>: "SYUR";
        broadcast::WeakSender<u8>: "SYUR";
        broadcast::error::SendError<u8>: "SYUR";
        broadcast::error::RecvError: "SYUR";
        broadcast::error::TryRecvError: "SYUR";
        broadcast::error::RecvTimeoutError: "SYUR";
        mpsc::Sender<u8>: "SYUR";
        mpsc::SyncSender<u8>: "SYUR";
        mpsc::Receiver<u8>: "SUR";
        mpsc::Iter<'static, u8>: "UR";
        mpsc::TryIter<'static, u8>: "UR";
        mpsc::IntoIter<u8>: "SUR";
    }
    as_much_as! {
        Mutex<u8>, parking_lot::Mutex<u8>;
        MutexGuard<'static, u8>, parking_lot::MutexGuard<'static, u8>;
        RwLockReadGuard<'static, u8>, parking_lot::RwLockReadGuard<'static, u8>;
        RwLockWriteGuard<'static, u8>, parking_lot::RwLockWriteGuard<'static, u8>;
        Condvar, parking_lot::Condvar;
        Once, parking_lot::Once;
        Barrier, std::sync::Barrier;
        OnceLock<u8>, std::sync::OnceLock<u8>;
        LazyLock<u8>, std::sync::LazyLock<u8>;
        WaitGroup, crossbeam_utils::sync::WaitGroup;
        mpsc::Sender<u8>, std::sync::mpsc::Sender<u8>;
        mpsc::Receiver<u8>, std::sync::mpsc::Receiver<u8>;
        mpsc::Iter<'static, u8>, std::sync::mpsc::Iter<'static, u8>;
        mpsc::IntoIter<u8>, std::sync::mpsc::IntoIter<u8>;
    }
}

#[test]
fn in_net_fs_and_slots() {
    use runtime::net::*;
    use runtime::{context_slot, fs};
    table! {
        TcpListener: "SYUR";
        TcpSocket: "SYUR";
        TcpStream: "SYUR";
        UdpSocket: "SYUR";
        OwnedReadHalf<TcpStream>: "SYUR";
        OwnedWriteHalf<TcpStream>: "SYUR";
        ReuniteError<TcpStream>: "SYUR";
        Incoming<'static>: "SYUR";
        Server: "SYUR";
        ServerBuilder: "SY";
        fs::File: "SYUR";
        fs::OpenOptions: "SYUR";
        fs::DirBuilder: "SYUR";
        fs::ReadDir: "SYUR";
        fs::DirEntry: "SYUR";
        context_slot::Slot<Cursor<u8>>: "SYUR";
    }
    as_much_as! {
        TcpListener, std::net::TcpListener;
        TcpStream, std::net::TcpStream;
        UdpSocket, std::net::UdpSocket;
        fs::File, std::fs::File;
        fs::OpenOptions, std::fs::OpenOptions;
        fs::ReadDir, std::fs::ReadDir;
        fs::DirEntry, std::fs::DirEntry;
    }
}

#[test]
fn of_the_system() {
    use runtime::{io, process};
    table! {
        io::DuplexStream: "SYUR";
        io::PipeReader: "SYUR";
        io::PipeWriter: "SYUR";
        io::Stdin: "SYUR";
        io::StdinLock<'static>: "SY";
        io::Stdout: "SYUR";
        io::StdoutLock<'static>: "";
        io::Stderr: "SYUR";
        io::StderrLock<'static>: "";
        process::Child: "SYUR";
        process::ChildStdin: "SYUR";
        process::ChildStdout: "SYUR";
        process::ChildStderr: "SYUR";
    }
    // std's command has closures of the user on Unix.
    #[cfg(unix)]
    table! {
        process::Command: "SY";
    }
    #[cfg(windows)]
    table! {
        process::Command: "SYUR";
    }
    as_much_as! {
        io::PipeReader, std::io::PipeReader;
        io::PipeWriter, std::io::PipeWriter;
        io::Stdin, std::io::Stdin;
        io::Stdout, std::io::Stdout;
        process::Command, std::process::Command;
        process::Child, std::process::Child;
        process::ChildStdin, std::process::ChildStdin;
    }
}

#[cfg(unix)]
#[test]
fn on_unix() {
    use runtime::net::{Async, Interest, Readiness, Ready, unix};
    use runtime::signal;
    use std::os::fd::OwnedFd;
    table! {
        unix::UnixListener: "SYUR";
        unix::UnixStream: "SYUR";
        unix::UnixDatagram: "SYUR";
        unix::Incoming<'static>: "SYUR";
        Async<OwnedFd>: "SYUR";
        Interest: "SYUR";
        Ready: "SYUR";
        Readiness<'static, OwnedFd>: "SY";
        signal::Signals: "SYUR";
        signal::NotifyContext: "SYUR";
        signal::Received: "SYUR";
    }
    as_much_as! {
        unix::UnixStream, std::os::unix::net::UnixStream;
    }
}

#[cfg(target_os = "linux")]
#[test]
fn on_linux() {
    table! {
        runtime::net::unix::UCred: "SYUR";
        runtime::net::unix::ReceivedFds: "SYUR";
    }
}

#[cfg(feature = "tracing")]
#[test]
fn in_tracing() {
    use runtime::tracing::{DefaultGuard, Following, OfOsThread};
    table! {
        // Not unwind-safe, because tracing's own `WeakDispatch` is not.
        Following<u8>: "SY";
        OfOsThread<u8>: "SYUR";
        DefaultGuard: "UR";
    }
}

#[cfg(feature = "sim")]
#[test]
fn in_sim() {
    use runtime::sim::atomic::{
        AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicU8, AtomicU16, AtomicU32,
        AtomicU64, AtomicUsize,
    };
    use runtime::sim::fs::Quality as DiskQuality;
    use runtime::sim::linear::{Call, History, Violation};
    use runtime::sim::net::Quality;
    use runtime::sim::{Builder, Failure, Faults, Node, ParseScheduleError, Report, Schedule, Strategy};
    table! {
        Builder: "SYUR";
        Call<'static, u8>: "SYUR";
        Failure: "SYUR";
        History<u8>: "SYUR";
        Violation<u8>: "SYUR";
        Faults: "SYUR";
        Node<u8>: "SYUR";
        Quality: "SYUR";
        DiskQuality: "SYUR";
        ParseScheduleError: "SYUR";
        Report: "SYUR";
        Schedule: "SYUR";
        Strategy: "SYUR";
        AtomicBool: "SYUR";
        AtomicI8: "SYUR";
        AtomicI16: "SYUR";
        AtomicI32: "SYUR";
        AtomicI64: "SYUR";
        AtomicIsize: "SYUR";
        AtomicU8: "SYUR";
        AtomicU16: "SYUR";
        AtomicU32: "SYUR";
        AtomicU64: "SYUR";
        AtomicUsize: "SYUR";
    }
}

#[cfg(feature = "async-io")]
#[test]
fn in_hyper() {
    use runtime::hyper::{Executor, Timer};
    table! {
        Executor: "SYUR";
        Timer: "SYUR";
    }
}

#[cfg(feature = "debug")]
#[test]
fn in_debug() {
    use runtime::debug;
    use runtime::profile::{Heap, HeapSite, HeapSum, Profile, Profiled};
    table! {
        debug::Answer: "SYUR";
        debug::Builder: "SYUR";
        debug::Handler: "SYUR";
        debug::Server: "SYUR";
        Heap: "SYUR";
        HeapSite: "SYUR";
        HeapSum: "SYUR";
        Profile: "SYUR";
        Profiled<std::alloc::System>: "SYUR";
    }
}
