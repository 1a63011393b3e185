//! An actor: a worker, or a thread that an operation has spawned. It performs operations.

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

/// The state of an actor. When a cancellation or a time-out interrupts the actor, its children end too.
#[derive(Debug)]
pub(crate) struct Actor {
    pub(crate) world: Arc<World>,
    /// The runtime of the actor's green thread. For a plain OS thread, the default runtime.
    pub(crate) site: Arc<Site>,
    pub(crate) random: Random,
    pub(crate) green: bool,
    /// The actor acts inside the polls of a future.
    in_poll: bool,
    depth: u32,
    place: Place,
    // The last field, so that it is dropped last.
    _life: Option<Life>,
}

/// An actor that is not yet on its own thread.
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
    /// Makes the actor of a green thread that the caller will spawn on `site`.
    pub(crate) fn new(world: &Arc<World>, site: &Arc<Site>, seed: u64) -> Unborn {
        let life = Life::begin(site, &world.drops);
        Unborn { world: world.clone(), site: site.clone(), seed, depth: 0, of: None, life }
    }

    /// Makes the actor. Called on the actor's own thread.
    pub(crate) fn begin(self) -> Actor {
        Actor {
            place: Place::take(self.of),
            world: self.world,
            site: self.site,
            random: Random::new(self.seed),
            green: true,
            in_poll: false,
            depth: self.depth,
            _life: Some(self.life),
        }
    }

    /// Makes the actor of a future. Called in the future's first poll.
    fn begin_in_poll(self) -> Actor {
        Actor { in_poll: true, ..self.begin() }
    }
}

impl Actor {
    /// Makes the actor of the calling plain OS thread.
    pub(crate) fn plain(world: &Arc<World>, seed: u64) -> Actor {
        Actor {
            world: world.clone(),
            site: world.default.clone(),
            random: Random::new(seed),
            green: false,
            in_poll: false,
            depth: 0,
            place: Place::take(None),
            _life: None,
        }
    }

    /// Performs operation `op`, with random numbers from `seed`.
    pub(crate) fn perform(&mut self, op: usize, seed: u64) {
        let doing = self.place.begins(op);
        let random = std::mem::replace(&mut self.random, Random::new(seed));
        self.depth += 1;
        let deeper = self.depth;
        (ops::OPS[op].run)(self);
        // An interrupted inner operation has not restored the depth.
        self.depth = deeper - 1;
        self.random = random;
        doing.finish();
    }

    /// Performs a random operation that is allowed at this depth.
    pub(crate) fn anything(&mut self) {
        let crowded = self.world.is_crowded();
        let (seed, depth) = (self.random.number(), if crowded { DEEPEST } else { self.depth });
        self.perform(ops::choose(&mut Random::new(seed), depth), seed);
    }

    /// True if an operation within this operation may spawn many threads.
    pub(crate) fn may_grow(&self) -> bool {
        self.depth < DEEPEST && !self.world.is_crowded()
    }

    /// True if the actor, after it has parked, may have to resume on the same OS thread.
    pub(crate) fn keeps_thread(&self) -> bool {
        self.site.mode.keeps_thread || self.in_poll || std::thread::panicking()
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

    /// Waits for a short time in a random way.
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

    /// See [`Place::works`].
    pub(crate) fn works(&self, other: Other) {
        self.place.works(other);
    }

    /// See [`Place::rests`].
    pub(crate) fn rests(&self, other: Other) {
        self.place.rests(other);
    }

    /// Returns an actor for a green thread that the caller spawns in its own runtime.
    pub(crate) fn offspring(&mut self) -> Unborn {
        let site = self.site.clone();
        self.offspring_on(&site)
    }

    fn offspring_on(&mut self, site: &Arc<Site>) -> Unborn {
        let mut unborn = Unborn::new(&self.world, site, self.random.number());
        (unborn.depth, unborn.of) = (self.depth, self.place.number());
        unborn
    }

    /// Returns the actor's own site most of the time, else another site that lasts.
    fn some_site(&mut self) -> Arc<Site> {
        match self.random.below(16) {
            0 => self.world.home.clone(),
            1 => self.world.default.clone(),
            _ => self.site.clone(),
        }
    }

    /// Spawns a green thread, most of the time in the actor's own runtime.
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
        // `runtime::spawn` and `Handle::spawn` both spawn in the actor's own runtime.
        let own = Arc::ptr_eq(site, &self.site) && self.random.below(2) == 0;
        Child::new(site, if own { runtime::spawn(task) } else { site.spawn(task) })
    }

    /// Spawns a future with an actor of its own.
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
        Child::new(site, site.spawn(async move { f(unborn.begin_in_poll()).await }))
    }

    /// Spawns with `builder`. Returns the error of `Builder::spawn`.
    pub(crate) fn spawn_with<T: Send + 'static>(
        &mut self,
        builder: thread::Builder,
        f: impl FnOnce(&mut Actor) -> T + Send + 'static,
    ) -> io::Result<Child<T>> {
        let unborn = self.offspring();
        builder.spawn(move || f(&mut unborn.begin())).map(|handle| Child::new(&self.site, handle))
    }

    /// Drives a future on the calling thread. A plain OS thread uses a green thread for that, which is
    /// counted.
    pub(crate) fn block_on<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        let _life = (!self.green).then(|| Life::begin(&self.site, &self.world.drops));
        runtime::block_on(future)
    }

    /// Polls the handle of a child once. Returns the child's result if it has ended.
    pub(crate) fn poll_once<T: Send>(&self, child: &mut Child<T>) -> Option<thread::Result<T>> {
        let handle = child.handle.as_mut().expect("the child is not joined yet");
        let polled = self.block_on(tests::futures::poll_once(handle));
        if polled.is_some() {
            child.handle = None;
        }
        polled.map(|ended| child.judged(ended))
    }

    /// Runs `f` as a green thread on `site` and waits for its end.
    pub(crate) fn block_on_at<T: Send>(
        &mut self,
        site: &Arc<Site>,
        f: impl FnOnce(&mut Actor) -> T + Send,
    ) -> T {
        let unborn = self.offspring_on(site);
        site.handle.block_on(move || f(&mut unborn.begin()))
    }

    /// True if the actor's runtime is ending. It must not begin anything and wait for that then.
    pub(crate) fn is_doomed(&self) -> bool {
        self.site.is_closing()
    }

    /// Ends the actor if its runtime is ending: its children are cancelled, and no result counts.
    pub(crate) fn unless_doomed(&self) {
        if self.site.is_closing() && !std::thread::panicking() {
            resume_unwind(Box::new(thread::Cancelled));
        }
    }

    /// Checks a condition that holds only if the actor's children have ended by themselves. A cancellation or
    /// a time-out of the actor may have ended them. In that case the sleep below unwinds the actor before the
    /// panic.
    #[track_caller]
    pub(crate) fn check(&self, holds: bool, what: &str) {
        if !holds {
            self.unless_doomed();
            if self.site.is_closing() {
                // The actor unwinds already, in a destructor: nothing can be checked.
                return;
            }
            runtime::sleep(Duration::from_nanos(1));
            panic!("check failed: {what}");
        }
    }

    /// Checks the result of a system call.
    #[track_caller]
    pub(crate) fn good<T>(&self, result: io::Result<T>) -> T {
        match result {
            Ok(value) => value,
            Err(error) => {
                self.check(false, &error.to_string());
                panic!("in a destructor, while the runtime ends: {error}");
            }
        }
    }
}

/// Checks that `f`, if not interrupted, takes at least `time`.
pub(crate) fn not_before(time: Duration, f: impl FnOnce()) {
    let start = Instant::now();
    f();
    let took = start.elapsed();
    assert!(took >= time, "{time:?} ended after {took:?}");
}

/// The handle of a green thread that is cancelled when the handle is dropped.
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
        self.handle.as_ref().expect("the child is not joined yet")
    }

    fn take(&mut self) -> JoinHandle<T> {
        self.handle.take().expect("a child is joined once")
    }

    pub(crate) fn cancel(&self) {
        self.handle().cancel();
    }

    /// Waits for the child's end and returns its result. If its runtime ended and cancelled the child, the
    /// caller unwinds too.
    pub(crate) fn join(mut self) -> thread::Result<T> {
        let ended = self.take().join();
        self.judged(ended)
    }

    /// Like [`Child::join`], as a future.
    pub(crate) async fn joined(mut self) -> thread::Result<T> {
        let ended = self.handle.as_mut().expect("a child is joined once").await;
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

    /// Returns the child's value. Panics if the child has panicked or was cancelled.
    #[track_caller]
    pub(crate) fn value(self) -> T {
        by_itself(self.join())
    }

    /// Like [`Child::value`], as a future.
    pub(crate) async fn awaited(self) -> T {
        by_itself(self.joined().await)
    }

    /// Waits for the child's end and returns its result without unwinding, so that destructors may call this.
    pub(crate) fn ended(mut self) -> thread::Result<T> {
        self.take().join()
    }

    /// Lets the child run on to its end.
    pub(crate) fn detach(mut self) {
        self.handle = None;
    }

    /// Checks that the child, which the caller has cancelled, has ended as cancelled.
    #[track_caller]
    pub(crate) fn was_cancelled(self) {
        match self.ended() {
            Ok(_) => panic!("a cancelled child returned"),
            Err(panic) => {
                assert!(panic.is::<thread::Cancelled>(), "the child ended with {}", described(&*panic))
            }
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

/// Returns the value of a thread. Panics if the thread has panicked or was cancelled.
#[track_caller]
pub(crate) fn by_itself<T>(ended: thread::Result<T>) -> T {
    match ended {
        Ok(value) => value,
        Err(panic) => panic!("the thread ended with {}", described(&*panic)),
    }
}

/// Returns the text of a panic.
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
