//! Who performs operations: a worker, or a thread that an operation has spawned.

use std::io;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use runtime::{JoinHandle, thread};
use tests::{Random, Token};

use crate::board::{Other, Place};
use crate::ops::{self, DEEPEST};
use crate::site::{Life, Site};
use crate::world::World;

/// See the file's head. Whatever it begins ends by itself when it is interrupted by a cancellation or a time-out.
#[derive(Debug)]
pub(crate) struct Actor {
    pub(crate) world: Arc<World>,
    /// The runtime of its green thread; a plain thread's is the default one.
    pub(crate) site: Arc<Site>,
    pub(crate) random: Random,
    pub(crate) green: bool,
    depth: u32,
    place: Place,
    // The last to go.
    _life: Option<Life>,
}

/// An actor that has not begun to act, on its way to its thread.
#[derive(Debug)]
pub(crate) struct Unborn {
    world: Arc<World>,
    site: Arc<Site>,
    seed: u64,
    depth: u32,
    of: Option<u32>,
    life: Life,
}

impl Unborn {
    /// A green thread of that runtime, to be.
    pub(crate) fn new(world: &Arc<World>, site: &Arc<Site>, seed: u64) -> Unborn {
        let life = Life::begin(site, &world.drops);
        Unborn { world: world.clone(), site: site.clone(), seed, depth: 0, of: None, life }
    }

    /// *On its own thread.*
    pub(crate) fn begin(self) -> Actor {
        Actor {
            place: Place::take(self.of),
            world: self.world,
            site: self.site,
            random: Random::new(self.seed),
            green: true,
            depth: self.depth,
            _life: Some(self.life),
        }
    }
}

impl Actor {
    /// The calling plain thread acts.
    pub(crate) fn plain(world: &Arc<World>, seed: u64) -> Actor {
        Actor {
            world: world.clone(),
            site: world.default.clone(),
            random: Random::new(seed),
            green: false,
            depth: 0,
            place: Place::take(None),
            _life: None,
        }
    }

    /// Performs that operation, with choices of its own from `seed`.
    pub(crate) fn perform(&mut self, op: usize, seed: u64) {
        let doing = self.place.begins(op);
        let random = std::mem::replace(&mut self.random, Random::new(seed));
        self.depth += 1;
        let deeper = self.depth;
        (ops::OPS[op].run)(self);
        // An operation within may have been interrupted, and so not have counted back.
        self.depth = deeper - 1;
        self.random = random;
        doing.finish();
    }

    /// Performs any operation that may be performed within another.
    pub(crate) fn anything(&mut self) {
        let crowded = self.world.is_crowded();
        let (seed, depth) = (self.random.number(), if crowded { DEEPEST } else { self.depth });
        self.perform(ops::choose(&mut Random::new(seed), depth), seed);
    }

    /// True if an operation within this one may spawn many.
    pub(crate) fn may_grow(&self) -> bool {
        self.depth < DEEPEST && !self.world.is_crowded()
    }

    pub(crate) fn micros(&mut self, most: u64) -> Duration {
        Duration::from_micros(self.random.below(most))
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    pub(crate) fn number(&mut self, range: Range<u64>) -> u64 {
        range.start + self.random.below(range.end - range.start)
    }

    /// Waits for some moment, somehow.
    pub(crate) fn pause(&mut self) {
        let time = self.micros(300);
        match self.random.below(6) {
            0 => {}
            1 => thread::yield_now(),
            2 => drop(tests::spin(time / 8)),
            3 => thread::park_timeout(time),
            _ => not_before(time, || runtime::sleep(time)),
        }
    }

    pub(crate) fn token(&self) -> Token {
        self.world.drops.token()
    }

    /// Works on something that is no operation; see [`Place::works`].
    pub(crate) fn works(&self, other: Other) {
        self.place.works(other);
    }

    /// Performs an operation as above, which may last.
    pub(crate) fn rests(&self, other: Other) {
        self.place.rests(other);
    }

    /// An actor for a green thread that the caller spawns in its own runtime.
    pub(crate) fn offspring(&mut self) -> Unborn {
        let site = self.site.clone();
        self.offspring_on(&site)
    }

    fn offspring_on(&mut self, site: &Arc<Site>) -> Unborn {
        let mut unborn = Unborn::new(&self.world, site, self.random.number());
        (unborn.depth, unborn.of) = (self.depth, self.place.number());
        unborn
    }

    /// Mostly its own runtime, else another one that lasts.
    fn some_site(&mut self) -> Arc<Site> {
        match self.random.below(16) {
            0 => self.world.home.clone(),
            1 => self.world.default.clone(),
            _ => self.site.clone(),
        }
    }

    /// Spawns a green thread, mostly in its own runtime.
    pub(crate) fn spawn<T: Send + 'static>(
        &mut self,
        f: impl FnOnce(&mut Actor) -> T + Send + 'static,
    ) -> Child<T> {
        let site = self.some_site();
        self.spawn_on(&site, f)
    }

    pub(crate) fn spawn_on<T: Send + 'static>(
        &mut self,
        site: &Arc<Site>,
        f: impl FnOnce(&mut Actor) -> T + Send + 'static,
    ) -> Child<T> {
        let unborn = self.offspring_on(site);
        let task = move || f(&mut unborn.begin());
        // The two ways to one's own runtime.
        let own = Arc::ptr_eq(site, &self.site) && self.random.below(2) == 0;
        Child::new(site, if own { runtime::spawn(task) } else { site.spawn(task) })
    }

    /// Spawns a future as an actor.
    pub(crate) fn spawn_async<T: Send + 'static, F: Future<Output = T> + Send>(
        &mut self,
        f: impl FnOnce(Actor) -> F + Send + 'static,
    ) -> Child<T> {
        let site = self.some_site();
        self.spawn_async_on(&site, f)
    }

    pub(crate) fn spawn_async_on<T: Send + 'static, F: Future<Output = T> + Send>(
        &mut self,
        site: &Arc<Site>,
        f: impl FnOnce(Actor) -> F + Send + 'static,
    ) -> Child<T> {
        let unborn = self.offspring_on(site);
        Child::new(site, site.spawn(async move { f(unborn.begin()).await }))
    }

    /// Spawns with that builder; `Err` has what `Builder::spawn` says.
    pub(crate) fn spawn_with<T: Send + 'static>(
        &mut self,
        builder: thread::Builder,
        f: impl FnOnce(&mut Actor) -> T + Send + 'static,
    ) -> io::Result<Child<T>> {
        let unborn = self.offspring();
        builder.spawn(move || f(&mut unborn.begin())).map(|handle| Child::new(&self.site, handle))
    }

    /// Drives a future here; on a plain thread that takes a green thread.
    pub(crate) fn block_on<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        let _life = (!self.green).then(|| Life::begin(&self.site, &self.world.drops));
        runtime::block_on(future)
    }

    /// Asks a child once whether it has ended, as a future is asked.
    pub(crate) fn poll_once<T: Send>(&self, child: &mut Child<T>) -> Option<thread::Result<T>> {
        let handle = child.handle.as_mut().expect("it is there until it is joined");
        let polled = self.block_on(tests::futures::poll_once(handle));
        if polled.is_some() {
            child.handle = None;
        }
        polled.map(|ended| child.judged(ended))
    }

    /// Runs `f` as a green thread of that runtime and waits for it.
    pub(crate) fn block_on_at<T: Send>(
        &mut self,
        site: &Arc<Site>,
        f: impl FnOnce(&mut Actor) -> T + Send,
    ) -> T {
        let unborn = self.offspring_on(site);
        site.handle.block_on(move || f(&mut unborn.begin()))
    }

    /// The runtime of this one is being ended: nothing is begun any more that it would wait for.
    pub(crate) fn is_doomed(&self) -> bool {
        self.site.is_closing()
    }

    /// Where the runtime of this one is being ended, its children are cancelled and no result counts: it ends here too.
    pub(crate) fn unless_doomed(&self) {
        if self.site.is_closing() && !std::thread::panicking() {
            resume_unwind(Box::new(thread::Cancelled));
        }
    }

    /// A check that holds only if its children, or the threads of its scope, have ended by themselves. They do not if
    /// this one was cancelled or its time was up, which then ends its next wait.
    #[track_caller]
    pub(crate) fn check(&self, holds: bool, what: &str) {
        if !holds {
            self.unless_doomed();
            if self.site.is_closing() {
                // A destructor of one that is being ended.
                return;
            }
            runtime::sleep(Duration::from_nanos(1));
            panic!("not so: {what}");
        }
    }

    /// Checks the result of a system call.
    #[track_caller]
    pub(crate) fn good<T>(&self, result: io::Result<T>) -> T {
        match result {
            Ok(value) => value,
            Err(error) => {
                self.check(false, &error.to_string());
                panic!("a destructor of one that is being ended: {error}");
            }
        }
    }
}

/// What takes at least so long, and is not interrupted, was not early.
pub(crate) fn not_before(time: Duration, f: impl FnOnce()) {
    let start = Instant::now();
    f();
    let took = start.elapsed();
    assert!(took >= time, "{time:?} were over after {took:?}");
}

/// The caller's OS thread. It parks nowhere, and is not inlined: a thread-local's address belongs to one OS thread.
#[inline(never)]
pub(crate) fn os_thread() -> std::thread::ThreadId {
    std::thread::current().id()
}

/// A green thread that is cancelled when its handle is dropped. A joiner has done all that the thread waits for.
#[derive(Debug)]
pub(crate) struct Child<T> {
    handle: Option<JoinHandle<T>>,
    site: Arc<Site>,
}

impl<T> Child<T> {
    fn new(site: &Arc<Site>, handle: JoinHandle<T>) -> Self {
        Child { handle: Some(handle), site: site.clone() }
    }

    pub(crate) fn handle(&self) -> &JoinHandle<T> {
        self.handle.as_ref().expect("it is there until it is joined")
    }

    fn take(&mut self) -> JoinHandle<T> {
        self.handle.take().expect("it is joined once")
    }

    pub(crate) fn cancel(&self) {
        self.handle().cancel();
    }

    /// Its end. If its runtime was ended under it, its parent, the caller, ends as well.
    pub(crate) fn join(mut self) -> thread::Result<T> {
        let ended = self.take().join();
        self.judged(ended)
    }

    /// As above, as a future.
    pub(crate) async fn joined(mut self) -> thread::Result<T> {
        let ended = self.handle.as_mut().expect("it is joined once").await;
        self.handle = None;
        self.judged(ended)
    }

    fn judged(&self, ended: thread::Result<T>) -> thread::Result<T> {
        match ended {
            Err(end)
                if end.is::<thread::Cancelled>() && self.site.is_closing() && !std::thread::panicking() =>
            {
                resume_unwind(end)
            }
            ended => ended,
        }
    }

    /// Its value: it has neither panicked nor been cancelled.
    #[track_caller]
    pub(crate) fn value(self) -> T {
        by_itself(self.join())
    }

    /// As above, as a future.
    pub(crate) async fn awaited(self) -> T {
        by_itself(self.joined().await)
    }

    /// Its end, whatever that is: also in a destructor, where nothing may unwind.
    pub(crate) fn ended(mut self) -> thread::Result<T> {
        self.take().join()
    }

    /// It goes on by itself, to its end.
    pub(crate) fn detach(mut self) {
        self.handle = None;
    }

    /// It was cancelled, and has ended so.
    #[track_caller]
    pub(crate) fn was_cancelled(self) {
        match self.ended() {
            Ok(_) => panic!("it was cancelled, and went on to its end"),
            Err(panic) => assert!(panic.is::<thread::Cancelled>(), "not with {}", described(&*panic)),
        }
    }
}

impl<T> Drop for Child<T> {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.cancel();
        }
    }
}

/// The value of one that was neither cancelled nor has panicked.
#[track_caller]
pub(crate) fn by_itself<T>(ended: thread::Result<T>) -> T {
    match ended {
        Ok(value) => value,
        Err(panic) => panic!("it was to end by itself, not with {}", described(&*panic)),
    }
}

/// What a panic says.
pub(crate) fn described(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    match text {
        _ if panic.is::<thread::Cancelled>() => "a cancellation".into(),
        Some(text) => format!("the panic {text:?}"),
        None => "a payload of another kind".into(),
    }
}

/// Sets a flag, for a destructor or a thread that watches it.
pub(crate) fn set(flag: &std::sync::atomic::AtomicBool) {
    flag.store(true, SeqCst);
}
