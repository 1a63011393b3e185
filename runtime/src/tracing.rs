//! Entered spans and the default dispatcher of `tracing` follow the green thread. (Feature `tracing`.)
//!
//! `tracing` keeps the entered spans in the OS thread. A green thread that parks within `span.enter()` leaves
//! that thread. So its next line may appear in the span of another green thread, with either
//! [`Migration`](crate::Migration). Wrap the subscriber in [`Following`], and each line is under its own
//! span:
//!
//! ```
//! use runtime::tracing::{Following, with_default};
//! use std::time::Duration;
//!
//! # struct MySubscriber;
//! # impl tracing_core::Subscriber for MySubscriber {
//! #     fn enabled(&self, _: &tracing_core::Metadata<'_>) -> bool { false }
//! #     fn new_span(&self, _: &tracing_core::span::Attributes<'_>) -> tracing_core::span::Id { unreachable!() }
//! #     fn record(&self, _: &tracing_core::span::Id, _: &tracing_core::span::Record<'_>) {}
//! #     fn record_follows_from(&self, _: &tracing_core::span::Id, _: &tracing_core::span::Id) {}
//! #     fn event(&self, _: &tracing_core::Event<'_>) {}
//! #     fn enter(&self, _: &tracing_core::span::Id) {}
//! #     fn exit(&self, _: &tracing_core::span::Id) {}
//! # }
//! // For instance `tracing_subscriber::registry().with(fmt::layer()).with(tracing_opentelemetry::layer())`.
//! let subscriber = Following::new(MySubscriber);
//! // For the whole process: `tracing::subscriber::set_global_default(subscriber)`. For a part of the program:
//! with_default(&subscriber.into(), || {
//!     // let _entered = tracing::info_span!("request", id).entered();
//!     runtime::sleep(Duration::from_millis(1));
//!     // tracing::info!("this line is in the span, on whatever OS thread it is");
//! });
//! ```
//!
//! # What follows
//!
//! - **Entered spans.** Where the green thread leaves its OS thread, its spans are exited, the innermost
//!   first. Where it goes on, they are entered again. So layers see the same calls as from a future that is
//!   instrumented, and work unchanged. Such layers are `fmt` with its busy and idle times, `EnvFilter`, and
//!   `tracing-opentelemetry` with its own context. A green thread outside of spans pays nothing when it
//!   parks.
//! - **The scoped default dispatcher**, if it was set by [`with_default`] or [`set_default`] of this module.
//!   Those of `tracing` itself set it for the OS thread: they must not be kept across a [call that
//!   parks](crate::docs::moving#calls-that-park).
//! - **Into children**, if the subscriber asks for it: see [`Following::inherited`].
//!
//! A layer must not park: `tracing` itself keeps references to its thread-locals while it calls layers.
//! Writers to files, standard streams and [`std::io`] in general do not park.
//!
//! # Naming the green thread
//!
//! Loggers that print the thread's name print that of the OS thread.
//! [`thread::current`](crate::thread::current) knows the green thread, and formats itself as its name or id.
//! With `tracing-subscriber`, put it before the format that you use:
//!
//! ```ignore
//! struct WithThread<F>(F);
//!
//! impl<S, N, F> FormatEvent<S, N> for WithThread<F>
//! where
//!     S: Subscriber + for<'a> LookupSpan<'a>,
//!     N: for<'a> FormatFields<'a> + 'static,
//!     F: FormatEvent<S, N>,
//! {
//!     fn format_event(&self, cx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
//!         write!(writer, "{} ", runtime::thread::current())?;
//!         self.0.format_event(cx, writer, event)
//!     }
//! }
//!
//! tracing_subscriber::fmt().event_format(WithThread(fmt::format())).init();
//! ```
//!
//! With `log` and `env_logger`:
//!
//! ```ignore
//! env_logger::builder().format(|out, line| {
//!     writeln!(out, "{} {} {}", runtime::thread::current(), line.level(), line.args())
//! }).init();
//! ```

#![allow(unsafe_code)]

use std::any::TypeId;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use sched::user_events::Stretch;
use tracing_core::dispatcher::{self, Dispatch, WeakDispatch};
use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::{Event, Interest, LevelFilter, Metadata, Subscriber};

use crate::context_slot::{Slot, ThreadContext};

/// A subscriber whose entered spans follow the green thread. All calls go to the wrapped subscriber.
///
/// Wrap the whole subscriber, with all its layers. [Example](crate::tracing).
#[derive(Debug)]
pub struct Following<S> {
    inner: Arc<S>,
    inherits: Option<Inherits>,
    /// The dispatcher of this subscriber, once there is one.
    dispatch: Arc<OnceLock<WeakDispatch>>,
}

/// Marks a subscriber whose spans children inherit. `Dispatch::downcast_ref` finds it.
#[derive(Clone, Copy, Debug)]
struct Inherits(#[allow(dead_code)] u8);

impl<S: Subscriber + Send + Sync> Following<S> {
    /// Wraps `subscriber`.
    ///
    /// ```
    /// # use tracing_core::subscriber::NoSubscriber;
    /// let subscriber = runtime::tracing::Following::new(NoSubscriber::new());
    /// ```
    pub fn new(subscriber: S) -> Self {
        Following { inner: Arc::new(subscriber), inherits: None, dispatch: Arc::default() }
    }

    /// Lets a green thread begin in the spans that its spawner has entered, as if the spawner had written
    /// `spawn(in_current_span(..))`. A scoped default dispatcher of this subscriber is inherited as well.
    ///
    /// The child enters the spans before its first line and exits them at its end. They are not closed before
    /// that. Spawners may be green threads and plain OS threads. A child that outlives a request keeps the
    /// request's span open, so this is off by default.
    ///
    /// ```
    /// # use tracing_core::subscriber::NoSubscriber;
    /// let subscriber = runtime::tracing::Following::new(NoSubscriber::new()).inherited();
    /// ```
    #[must_use]
    pub fn inherited(mut self) -> Self {
        self.inherits = Some(Inherits(0));
        self
    }
}

impl<S: Subscriber> Following<S> {
    /// Begins a region of a trace with the name of the span `id`, which was entered last.
    fn region_of(&self, id: &Id) -> Option<Stretch> {
        let current = self.inner.current_span();
        let metadata = current.metadata().filter(|_| current.id() == Some(id))?;
        Stretch::region(metadata.name())
    }
}

/// What the running thread has begun, in its order.
enum Entry {
    Span(EnteredSpan),
    Default {
        dispatch: Dispatch,
        number: u64,
        /// Resets the default dispatcher of this OS thread. `None` while the entry is off the OS thread.
        guard: Option<dispatcher::DefaultGuard>,
    },
}

/// A span that the running thread is in.
struct EnteredSpan {
    subscriber: Arc<dyn Subscriber + Send + Sync>,
    dispatch: Arc<OnceLock<WeakDispatch>>,
    id: Id,
    inherits: bool,
    /// True if this keeps the span open: no guard of the green thread does, because it has inherited the
    /// span.
    is_owned: bool,
    /// The region of a trace that this thread has begun with the span.
    region: Option<Stretch>,
}

impl EnteredSpan {
    fn is(&self, subscriber: *const (), id: &Id) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.subscriber).cast::<()>(), subscriber) && self.id == *id
    }

    /// Makes this keep the span open.
    fn own(&mut self) {
        self.id = self.subscriber.clone_span(&self.id);
        self.is_owned = true;
    }
}

impl Drop for EnteredSpan {
    fn drop(&mut self) {
        if !self.is_owned {
            return;
        }
        // A registry closes the parents of a closed span by the default dispatcher.
        match self.dispatch.get().and_then(WeakDispatch::upgrade) {
            Some(dispatch) => dispatcher::with_default(&dispatch, || dispatch.try_close(self.id.clone())),
            None => self.subscriber.try_close(self.id.clone()),
        };
    }
}

std::thread_local! {
    /// What the thread that runs here has begun. The slot moves it with the green thread.
    static ENTRIES: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
}

/// Calls `f` with the entries of this OS thread; returns `None` at the end of that thread. `f` calls no
/// subscriber. Never inlined: the compiler must not keep the address of the thread-local across a park.
#[inline(never)]
fn with_entries<T>(f: impl FnOnce(&mut Vec<Entry>) -> T) -> Option<T> {
    ENTRIES.try_with(|entries| f(&mut entries.borrow_mut())).ok()
}

fn push(entry: Entry) {
    let first = with_entries(|entries| {
        entries.push(entry);
        entries.len() == 1
    });
    if first == Some(true) {
        SLOT.attach();
    }
}

/// Removes the last entry that `is_it` accepts.
fn remove(is_it: impl Fn(&Entry) -> bool) -> Option<Entry> {
    let (removed, is_empty) = with_entries(|entries| {
        let at = entries.iter().rposition(is_it);
        (at.map(|at| entries.remove(at)), entries.is_empty())
    })?;
    if is_empty {
        SLOT.detach();
    }
    removed
}

/// The slot in which spans and default dispatchers follow their green thread, in one order.
static SLOT: Slot<Entries> = Slot::new(Entries);

struct Entries;

impl ThreadContext for Entries {
    type Saved = Vec<Entry>;

    fn save(&self) -> Vec<Entry> {
        let mut entries = with_entries(std::mem::take).unwrap_or_default();
        for entry in entries.iter_mut().rev() {
            match entry {
                Entry::Span(span) => span.subscriber.exit(&span.id),
                Entry::Default { guard, .. } => drop(guard.take()),
            }
        }
        entries
    }

    fn restore(&self, mut entries: Vec<Entry>) {
        for entry in &mut entries {
            match entry {
                Entry::Span(span) => span.subscriber.enter(&span.id),
                Entry::Default { dispatch, guard, .. } => *guard = Some(dispatcher::set_default(dispatch)),
            }
        }
        with_entries(|on_thread| *on_thread = entries);
    }

    fn inherit(&self) -> Option<Vec<Entry>> {
        let mut inherited = with_entries(|entries| entries.iter().filter_map(for_child).collect::<Vec<_>>())?;
        for entry in &mut inherited {
            if let Entry::Span(span) = entry {
                span.own();
            }
        }
        (!inherited.is_empty()).then_some(inherited)
    }
}

/// Returns the entry of a child of the thread that has `entry`, if children inherit it.
fn for_child(entry: &Entry) -> Option<Entry> {
    match entry {
        Entry::Span(EnteredSpan { inherits: false, .. }) => None,
        Entry::Span(EnteredSpan { subscriber, dispatch, id, .. }) => Some(Entry::Span(EnteredSpan {
            subscriber: subscriber.clone(),
            dispatch: dispatch.clone(),
            id: id.clone(),
            inherits: true,
            is_owned: false,
            region: None,
        })),
        Entry::Default { dispatch, .. } => dispatch.downcast_ref::<Inherits>().map(|_| Entry::Default {
            dispatch: dispatch.clone(),
            number: new_number(),
            guard: None,
        }),
    }
}

/// Returns a number that names one default dispatcher of one thread.
fn new_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Calls `f` with `dispatch` as the default dispatcher of the calling thread, and returns what `f` returns.
///
/// It is `tracing::dispatcher::with_default`, except that the dispatcher follows a green thread that parks in
/// `f`.
///
/// ```
/// use tracing_core::{Dispatch, dispatcher::get_default, subscriber::NoSubscriber};
/// use runtime::tracing::{Following, with_default};
///
/// let dispatch = Dispatch::new(Following::new(NoSubscriber::new()));
/// runtime::block_on(|| with_default(&dispatch, || {
///     runtime::sleep(std::time::Duration::from_millis(1));
///     assert!(get_default(|now| now.is::<Following<NoSubscriber>>()));
/// }));
/// ```
pub fn with_default<T>(dispatch: &Dispatch, f: impl FnOnce() -> T) -> T {
    let _guard = set_default(dispatch);
    f()
}

/// Makes `dispatch` the default dispatcher of the calling thread until the guard is dropped.
///
/// It is `tracing::dispatcher::set_default`, except that the dispatcher follows a green thread that parks.
/// Drop guards in the reverse order. A guard that is forgotten counts until the green thread ends.
///
/// ```
/// use tracing_core::{Dispatch, subscriber::NoSubscriber};
/// let _guard = runtime::tracing::set_default(&Dispatch::new(NoSubscriber::new()));
/// ```
#[must_use = "dropping the guard resets the default dispatcher"]
pub fn set_default(dispatch: &Dispatch) -> DefaultGuard {
    let number = new_number();
    let guard = Some(dispatcher::set_default(dispatch));
    push(Entry::Default { dispatch: dispatch.clone(), number, guard });
    DefaultGuard { number, _of_this_thread: PhantomData }
}

/// Resets the default dispatcher when it is dropped; see [`set_default`].
pub struct DefaultGuard {
    number: u64,
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for DefaultGuard {
    fn drop(&mut self) {
        drop(remove(|entry| matches!(entry, Entry::Default { number, .. } if *number == self.number)));
    }
}

impl fmt::Debug for DefaultGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefaultGuard").finish_non_exhaustive()
    }
}

impl<S: Subscriber + Send + Sync> Subscriber for Following<S> {
    fn enter(&self, id: &Id) {
        self.inner.enter(id);
        push(Entry::Span(EnteredSpan {
            subscriber: self.inner.clone(),
            dispatch: self.dispatch.clone(),
            id: id.clone(),
            inherits: self.inherits.is_some(),
            is_owned: false,
            region: if sched::recorder::is_on() { self.region_of(id) } else { None },
        }));
    }

    fn exit(&self, id: &Id) {
        let subscriber = Arc::as_ptr(&self.inner).cast::<()>();
        let entry = remove(|entry| matches!(entry, Entry::Span(span) if span.is(subscriber, id)));
        self.inner.exit(id);
        if let Some(Entry::Span(EnteredSpan { region: Some(region), .. })) = &entry {
            region.end();
        }
        drop(entry);
    }

    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        let _ = self.dispatch.set(dispatch.downgrade());
        self.inner.on_register_dispatch(dispatch);
    }

    unsafe fn downcast_raw(&self, id: TypeId) -> Option<*const ()> {
        if id == TypeId::of::<Self>() {
            Some(std::ptr::from_ref(self).cast())
        } else if id == TypeId::of::<Inherits>() {
            self.inherits.as_ref().map(|inherits| std::ptr::from_ref(inherits).cast())
        } else {
            // SAFETY: `inner` lives as long as `self`, so what the caller may assume of its pointer holds.
            unsafe { self.inner.downcast_raw(id) }
        }
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.inner.register_callsite(metadata)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.inner.enabled(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.inner.max_level_hint()
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.inner.new_span(span)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.inner.record(span, values);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.inner.record_follows_from(span, follows);
    }

    fn event_enabled(&self, event: &Event<'_>) -> bool {
        self.inner.event_enabled(event)
    }

    fn event(&self, event: &Event<'_>) {
        self.inner.event(event);
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.inner.clone_span(id)
    }

    #[allow(deprecated)]
    fn drop_span(&self, id: Id) {
        self.inner.drop_span(id);
    }

    fn try_close(&self, id: Id) -> bool {
        self.inner.try_close(id)
    }

    fn current_span(&self) -> Current {
        self.inner.current_span()
    }
}

/// A subscriber that is always called with the thread-locals of the OS thread. All calls go to the wrapped
/// subscriber.
///
/// `tracing_subscriber::registry` knows at most 4,096 threads at a time, and panics at the next one. With
/// [`ThreadLocals::OfGreenThread`](crate::ThreadLocals::OfGreenThread) each closure that has used a span is a
/// thread. So programs with more of them wrap the registry with its layers, and that in [`Following`],
/// because then spans are entered on the OS thread:
///
/// ```
/// # use tracing_core::subscriber::NoSubscriber;
/// use runtime::tracing::{Following, OfOsThread};
/// // SAFETY: no layer, and no value in a span or an event, keeps what belongs to a thread in a thread-local.
/// let subscriber = Following::new(unsafe { OfOsThread::new(NoSubscriber::new()) });
/// ```
#[derive(Debug)]
pub struct OfOsThread<S>(S);

impl<S> OfOsThread<S> {
    /// Wraps `subscriber`.
    ///
    /// # Safety
    ///
    /// The subscriber formats values of spans and events, by code of their types. Neither that code nor a
    /// layer leaves in a thread-local what belongs to one thread, such as an [`Rc`](std::rc::Rc) of the
    /// value's. Other green threads run with the same thread-locals.
    ///
    /// ```
    /// # use tracing_core::subscriber::NoSubscriber;
    /// // SAFETY: this subscriber looks at no value.
    /// let subscriber = unsafe { runtime::tracing::OfOsThread::new(NoSubscriber::new()) };
    /// ```
    pub unsafe fn new(subscriber: S) -> Self {
        OfOsThread(subscriber)
    }

    fn call<R>(&self, f: impl FnOnce(&S) -> R) -> R {
        // SAFETY: `new` has the contract.
        unsafe { sched::with_os_thread_locals(|| f(&self.0)) }
    }
}

impl<S: Subscriber> Subscriber for OfOsThread<S> {
    fn enter(&self, id: &Id) {
        self.call(|inner| inner.enter(id));
    }

    fn exit(&self, id: &Id) {
        self.call(|inner| inner.exit(id));
    }

    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        self.call(|inner| inner.on_register_dispatch(dispatch));
    }

    unsafe fn downcast_raw(&self, id: TypeId) -> Option<*const ()> {
        if id == TypeId::of::<Self>() {
            return Some(std::ptr::from_ref(self).cast());
        }
        // SAFETY: `inner` lives as long as `self`, so what the caller may assume of its pointer holds.
        unsafe { self.0.downcast_raw(id) }
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.call(|inner| inner.register_callsite(metadata))
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.call(|inner| inner.enabled(metadata))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.call(Subscriber::max_level_hint)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.call(|inner| inner.new_span(span))
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.call(|inner| inner.record(span, values));
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.call(|inner| inner.record_follows_from(span, follows));
    }

    fn event_enabled(&self, event: &Event<'_>) -> bool {
        self.call(|inner| inner.event_enabled(event))
    }

    fn event(&self, event: &Event<'_>) {
        self.call(|inner| inner.event(event));
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.call(|inner| inner.clone_span(id))
    }

    #[allow(deprecated)]
    fn drop_span(&self, id: Id) {
        self.call(|inner| inner.drop_span(id));
    }

    fn try_close(&self, id: Id) -> bool {
        self.call(|inner| inner.try_close(id))
    }

    fn current_span(&self) -> Current {
        self.call(Subscriber::current_span)
    }
}
