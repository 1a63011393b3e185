//! Spans and default dispatchers of `tracing` follow their green thread (feature `tracing`), also through
//! `tracing-opentelemetry`.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry::trace::{TraceContextExt, TracerProvider};
use runtime::time::sleep_async;
use runtime::tracing::{Following, set_default, with_default};
use runtime::{Builder, Migration, Runtime, spawn};
use tests::{quiet_panics_on_purpose, with_built};
use tracing::{Dispatch, Instrument, Span, Subscriber, info, info_span};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::fmt::{self, FmtContext, FormatEvent, FormatFields, MakeWriter, format::Writer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

const MILLI: Duration = Duration::from_millis(1);
const THREADS: u64 = 1000;

/// The lines that a subscriber has written.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Lines;

    fn make_writer(&self) -> Lines {
        self.clone()
    }
}

impl Lines {
    fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        String::from_utf8(bytes).unwrap().lines().map(str::to_string).collect()
    }

    /// Returns a subscriber that writes here.
    fn subscriber(&self) -> impl Subscriber + Send + Sync + for<'a> LookupSpan<'a> + use<> {
        fmt().with_writer(self.clone()).finish()
    }
}

fn fmt() -> fmt::SubscriberBuilder<fmt::format::DefaultFields, fmt::format::Format<fmt::format::Full, ()>> {
    fmt::Subscriber::builder().without_time().with_ansi(false).with_target(false)
}

/// Runs `main` in a runtime of each kind: both migration modes, 1, 2 and 8 Ps.
fn in_each_kind(main: impl Fn(&Runtime)) {
    for migration in [Migration::Anytime, Migration::BeforeStart] {
        for procs in [1, 2, 8] {
            with_built(Builder::new().procs(procs).migration(migration), &main);
        }
    }
}

/// How the spans of a green thread get their parents.
#[derive(Clone, Copy)]
enum Parents {
    /// From the context, as usual.
    Current,
    /// By name. Without `Following` the current span may be that of another green thread, and would be the
    /// child of a third one's. That makes a chain of a thousand spans, and its end overflows the stack in
    /// `tracing-subscriber`.
    Named,
}

fn spans(id: u64, parents: Parents) -> (Span, impl FnOnce() -> Span) {
    let outer = match parents {
        Parents::Current => info_span!("outer", id),
        Parents::Named => info_span!(parent: None, "outer", id),
    };
    let named = outer.clone();
    let inner = move || match parents {
        Parents::Current => info_span!("inner", id),
        Parents::Named => info_span!(parent: &named, "inner", id),
    };
    (outer, inner)
}

/// What each of the green threads does: logs its number in spans of its number, and parks in between.
fn logs(id: u64, parents: Parents) {
    let (outer, inner) = spans(id, parents);
    let _outer = outer.enter();
    runtime::sleep(Duration::from_micros(id * 37 % 1000));
    info!(id, "one");
    {
        let _inner = inner().entered();
        runtime::yield_now();
        info!(id, "two");
        runtime::sleep(Duration::from_micros(id * 11 % 500));
        info!(id, "three");
    }
    runtime::yield_now();
    info!(id, "four");
}

/// Returns the number of lines of `logs` that are not under their own spans.
fn misplaced(lines: &[String]) -> usize {
    let misplaced = |line: &&String| {
        let id = line.rsplit_once("id=").unwrap().1;
        let outer = format!(" INFO outer{{id={id}}}: ");
        let inner = format!(" INFO outer{{id={id}}}:inner{{id={id}}}: ");
        ![("one", &outer), ("two", &inner), ("three", &inner), ("four", &outer)]
            .iter()
            .any(|(text, spans)| **line == format!("{spans}{text} id={id}"))
    };
    lines.iter().filter(misplaced).count()
}

/// Runs `logs` in green threads with this default dispatcher. Returns the number of them that panicked.
fn crowd(dispatch: &Dispatch, parents: Parents) -> usize {
    let threads: Vec<_> = (0..THREADS)
        .map(|id| {
            let dispatch = dispatch.clone();
            spawn(move || with_default(&dispatch, || logs(id, parents)))
        })
        .collect();
    threads.into_iter().map(|thread| usize::from(thread.join().is_err())).sum()
}

#[test]
fn every_line_is_under_its_own_span() {
    let lines = Lines::default();
    let dispatch = Dispatch::new(Following::new(lines.subscriber()));
    in_each_kind(|runtime| {
        assert_eq!(runtime.block_on(|| crowd(&dispatch, Parents::Current)), 0);
        let lines = lines.take();
        assert_eq!((lines.len() as u64, misplaced(&lines)), (4 * THREADS, 0));
    });
}

/// The control: the same without `Following`.
#[test]
fn without_following_lines_are_misplaced() {
    let lines = Lines::default();
    let dispatch = Dispatch::new(lines.subscriber());
    in_each_kind(|runtime| {
        // In a debug build `tracing-subscriber` panics if the current span is closed.
        let panicked = runtime.block_on(|| crowd(&dispatch, Parents::Named));
        assert!(panicked + misplaced(&lines.take()) > 0);
    });
}

/// A poll that parks within an instrumented future, and futures between two polls.
#[test]
fn lines_of_futures_are_under_their_own_spans() {
    let lines = Lines::default();
    let dispatch = Dispatch::new(Following::new(lines.subscriber()));
    in_each_kind(|runtime| {
        runtime.block_on(|| {
            let tasks: Vec<_> = (0..THREADS)
                .map(|id| {
                    let span = with_default_of_tracing(&dispatch, || info_span!("outer", id));
                    let dispatch = dispatch.clone();
                    let inner = async move {
                        runtime::sleep(Duration::from_micros(id * 7 % 300));
                        info!(id, "two");
                        sleep_async(Duration::from_micros(id % 100)).await;
                        info!(id, "three");
                    };
                    spawn(async move {
                        // The guard of a poll must not live across an `.await`, so it is set for each
                        // stretch.
                        let outer = async {
                            with_default(&dispatch, || {
                                runtime::sleep(Duration::from_micros(id * 3 % 200));
                                info!(id, "one");
                            });
                            Scoped(dispatch.clone(), Box::pin(inner.instrument(inner_span(&dispatch, id))))
                                .await;
                            with_default(&dispatch, || info!(id, "four"));
                        };
                        outer.instrument(span).await;
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
        let lines = lines.take();
        assert_eq!((lines.len() as u64, misplaced(&lines)), (4 * THREADS, 0));
    });
}

fn inner_span(dispatch: &Dispatch, id: u64) -> Span {
    with_default(dispatch, || info_span!("inner", id))
}

fn with_default_of_tracing<T>(dispatch: &Dispatch, f: impl FnOnce() -> T) -> T {
    tracing::dispatcher::with_default(dispatch, f)
}

/// A future that is polled with a default dispatcher.
struct Scoped<F>(Dispatch, std::pin::Pin<Box<F>>);

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<F::Output> {
        let _scope = set_default(&self.0.clone());
        self.1.as_mut().poll(cx)
    }
}

#[test]
fn nested_dispatchers_keep_their_spans_apart() {
    let (one, other) = (Lines::default(), Lines::default());
    let dispatches = [&one, &other].map(|lines| Dispatch::new(Following::new(lines.subscriber())));
    in_each_kind(|runtime| {
        runtime.block_on(|| {
            let threads: Vec<_> = (0..200u64)
                .map(|id| {
                    let [first, second] = dispatches.clone();
                    spawn(move || {
                        with_default(&first, || {
                            let _outer = info_span!("outer", id).entered();
                            with_default(&second, || logs(id, Parents::Current));
                            runtime::yield_now();
                            info!(id, "back");
                        });
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        let others = other.take();
        assert_eq!((others.len(), misplaced(&others)), (800, 0));
        for line in one.take() {
            let id = line.rsplit_once("id=").unwrap().1;
            assert_eq!(line, format!(" INFO outer{{id={id}}}: back id={id}"));
        }
    });
}

/// A green thread that ends in a span, however it ends, leaves neither span nor dispatcher behind. Its spans
/// are closed.
#[test]
fn nothing_stays_on_the_os_thread() {
    quiet_panics_on_purpose();
    let lines = Lines::default();
    let subscriber = fmt().with_writer(lines.clone()).with_span_events(FmtSpan::CLOSE).finish();
    let dispatch = Dispatch::new(Following::new(subscriber));
    in_each_kind(|runtime| {
        runtime.block_on(|| {
            let threads: Vec<_> = (0..300u64)
                .map(|id| {
                    let dispatch = dispatch.clone();
                    spawn(move || {
                        assert!(!tracing::dispatcher::get_default(|now| now.is::<fmt::Subscriber>()));
                        assert!(Span::current().is_none());
                        let scope = set_default(&dispatch);
                        let entered = info_span!("ends", id).entered();
                        runtime::sleep(Duration::from_micros(id));
                        match id % 3 {
                            // Never dropped.
                            0 => std::mem::forget((entered, scope)),
                            1 => panic!("{}", tests::ON_PURPOSE),
                            _ => runtime::sleep(Duration::from_secs(3600)),
                        }
                    })
                })
                .collect();
            threads.iter().skip(2).step_by(3).for_each(|thread| thread.cancel());
            threads.into_iter().for_each(|thread| drop(thread.join()));
            spawn(|| assert!(Span::current().is_none())).join().unwrap();
        });
        let closed = lines.take().iter().filter(|line| line.contains("close")).count();
        assert!((100..=200).contains(&closed), "{closed} of 200 spans were closed");
    });
}

#[test]
fn children_inherit_spans_if_the_subscriber_says_so() {
    let lines = Lines::default();
    let subscriber = || fmt().with_writer(lines.clone()).with_span_events(FmtSpan::CLOSE).finish();
    let (inherited, apart) = (Following::new(subscriber()).inherited(), Following::new(subscriber()));
    let (inherited, apart) = (Dispatch::new(inherited), Dispatch::new(apart));
    let family = || {
        let parent = info_span!("parent").entered();
        let child = spawn(|| {
            runtime::sleep(MILLI);
            info!("child");
            let _own = info_span!("own").entered();
            spawn(async {
                sleep_async(MILLI).await;
                info!("grandchild");
            })
        });
        drop(parent);
        child.join().unwrap().join().unwrap();
    };
    let said = || -> Vec<_> {
        let lines = lines.take();
        let short = |line: &String| line.split(" time.").next().unwrap().trim().to_string();
        lines.iter().map(short).collect()
    };
    in_each_kind(|runtime| {
        // On a green thread. The parent's span is closed after the last child has exited it.
        runtime.block_on(|| with_default(&inherited, family));
        assert_eq!(
            said(),
            [
                "INFO parent: child",
                "INFO parent:own: grandchild",
                "INFO parent:own: close",
                "INFO parent: close"
            ]
        );
        runtime.block_on(|| with_default(&apart, family));
        assert_eq!(said(), ["INFO parent: close"], "the children have neither the dispatcher nor the span");
    });
    // On a plain OS thread.
    with_default(&inherited, || {
        let _span = info_span!("plain").entered();
        runtime::block_on(|| info!("main"));
    });
    assert_eq!(said(), ["INFO plain: main", "INFO plain: close"]);
    assert!(Span::current().is_none());
}

/// Counts how often a green thread saw another OpenTelemetry context than that of its own span, or panicked
/// over it.
fn strangers_in_opentelemetry(dispatch: &Dispatch, parents: Parents) -> usize {
    let threads: Vec<_> = (0..THREADS)
        .map(|id| {
            let dispatch = dispatch.clone();
            spawn(move || {
                with_default(&dispatch, || {
                    let (outer, inner) = spans(id, parents);
                    let _outer = outer.enter();
                    let _inner = inner().entered();
                    let own = opentelemetry::Context::current().span().span_context().clone();
                    assert!(own.is_valid());
                    runtime::sleep(Duration::from_micros(id * 13 % 1000));
                    let mut strangers = 0;
                    for _ in 0..3 {
                        runtime::yield_now();
                        let now = opentelemetry::Context::current().span().span_context().clone();
                        strangers += usize::from(now != own);
                    }
                    strangers
                })
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap_or(1)).sum()
}

#[test]
fn contexts_of_opentelemetry_follow() {
    let provider = opentelemetry_sdk::trace::SdkTracerProvider::builder().build();
    let layer = || tracing_opentelemetry::layer().with_tracer(provider.tracer("tests"));
    let subscriber = || tracing_subscriber::registry().with(layer());
    let (following, plain) = (Dispatch::new(Following::new(subscriber())), Dispatch::new(subscriber()));
    in_each_kind(|runtime| {
        runtime.block_on(|| {
            assert_eq!(strangers_in_opentelemetry(&following, Parents::Current), 0);
            assert!(!opentelemetry::Context::current().span().span_context().is_valid());
        });
    });
    // The control.
    in_each_kind(|runtime| {
        assert!(runtime.block_on(|| strangers_in_opentelemetry(&plain, Parents::Named)) > 0)
    });
}

/// The formatter of the module's page, which names the green thread.
struct WithThread<F>(F);

impl<S, N, F> FormatEvent<S, N> for WithThread<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        cx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &tracing::Event<'_>,
    ) -> std::fmt::Result {
        write!(writer, "{} ", runtime::thread::current())?;
        self.0.format_event(cx, writer, event)
    }
}

#[test]
fn lines_name_the_green_thread() {
    let lines = Lines::default();
    let format = fmt::format().without_time().with_ansi(false).with_target(false);
    let subscriber =
        fmt::Subscriber::builder().with_writer(lines.clone()).event_format(WithThread(format)).finish();
    let dispatch = Dispatch::new(Following::new(subscriber));
    let log = move || {
        with_default(&dispatch, || info!("here"));
        runtime::thread::current().id()
    };
    runtime::thread::Builder::new().name("parser".into()).spawn(log.clone()).unwrap().join().unwrap();
    assert_eq!(lines.take(), ["'parser'  INFO here"]);
    let id = spawn(log.clone()).join().unwrap();
    let number: String = format!("{id:?}").chars().filter(char::is_ascii_digit).collect();
    assert_eq!(lines.take(), [format!("green thread {number}  INFO here")]);
    std::thread::spawn(log).join().unwrap();
    assert!(lines.take()[0].starts_with("thread "));
}
