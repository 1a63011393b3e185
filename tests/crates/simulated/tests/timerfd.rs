//! `timerfd` in a simulation: absolute times, dates, and what is left. The kernel's timers do the same.

runtime::interpose!(sim);

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use libc::{CLOCK_BOOTTIME, CLOCK_MONOTONIC, CLOCK_REALTIME, TFD_TIMER_ABSTIME, TFD_TIMER_CANCEL_ON_SET};
use runtime::sim;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const ZERO: Duration = Duration::ZERO;

fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn number<T>(result: io::Result<T>) -> Option<i32> {
    result.err()?.raw_os_error()
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ }
}

/// Returns the time until the next expiration, and the interval.
fn times(spec: &libc::itimerspec) -> (Duration, Duration) {
    let time = |time: libc::timespec| Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
    (time(spec.it_value), time(spec.it_interval))
}

/// The time on a clock.
fn now(clock: i32) -> Duration {
    // SAFETY: zero is a value of each field.
    let mut time: libc::timespec = unsafe { mem::zeroed() };
    // SAFETY: the place is this function's.
    checked(unsafe { libc::clock_gettime(clock, &mut time) }).unwrap();
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

struct Timer(OwnedFd);

impl Timer {
    fn new(clock: i32, flags: i32) -> Timer {
        // SAFETY: the call takes no pointer, and its number is new.
        Timer(unsafe { OwnedFd::from_raw_fd(checked(libc::timerfd_create(clock, flags)).unwrap()) })
    }

    fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Returns what was left before.
    fn try_set(&self, flags: i32, value: Duration, interval: Duration) -> io::Result<(Duration, Duration)> {
        let new = libc::itimerspec { it_value: timespec(value), it_interval: timespec(interval) };
        // SAFETY: zero is a value of each field.
        let mut old: libc::itimerspec = unsafe { mem::zeroed() };
        // SAFETY: the times are this function's.
        checked(unsafe { libc::timerfd_settime(self.fd(), flags, &new, &mut old) })?;
        Ok(times(&old))
    }

    fn set(&self, flags: i32, value: Duration, interval: Duration) {
        self.try_set(flags, value, interval).unwrap();
    }

    /// Returns what `timerfd_gettime` says is left, and the interval.
    fn left(&self) -> (Duration, Duration) {
        // SAFETY: zero is a value of each field.
        let mut left: libc::itimerspec = unsafe { mem::zeroed() };
        // SAFETY: the place is this function's.
        checked(unsafe { libc::timerfd_gettime(self.fd(), &mut left) }).unwrap();
        times(&left)
    }

    /// Returns how often it has expired; `None` if it has not, and the call does not wait.
    fn read(&self) -> Option<u64> {
        let mut count = 0u64;
        // SAFETY: the place is this function's.
        let n = unsafe { libc::read(self.fd(), (&raw mut count).cast(), 8) };
        (n == 8).then_some(count)
    }
}

/// Runs `test` in a simulation, and with timers of the system.
fn same(test: impl Fn(i32) + Send + Sync + Copy + 'static) {
    for clock in [CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME] {
        sim::run(1, move || test(clock));
        test(clock);
    }
}

/// Asserts that `left` is `time` but for the moment that has passed since.
#[track_caller]
fn assert_left(left: Duration, time: Duration) {
    assert!(left <= time && left > time - SECOND, "{left:?} of {time:?}");
}

#[test]
fn an_absolute_time_may_be_past() {
    same(|clock| {
        let timer = Timer::new(clock, libc::TFD_NONBLOCK);
        let ago = |seconds| now(clock) - seconds * SECOND;
        timer.set(TFD_TIMER_ABSTIME, ago(5), ZERO);
        assert_eq!(timer.left(), (ZERO, ZERO));
        assert_eq!([timer.read(), timer.read()], [Some(1), None]);
        // With an interval, all expirations since then count, and the later ones keep to its grid.
        timer.set(TFD_TIMER_ABSTIME, ago(35), 10 * SECOND);
        assert_left(timer.left().0, 5 * SECOND);
        assert_eq!([timer.read(), timer.read()], [Some(4), None]);
        assert_left(timer.left().0, 5 * SECOND);
        // A new setting forgets the expirations.
        timer.set(TFD_TIMER_ABSTIME, ago(35), 10 * SECOND);
        let (left, interval) = timer.try_set(TFD_TIMER_ABSTIME, now(clock) + HOUR, ZERO).unwrap();
        assert_eq!(interval, 10 * SECOND);
        assert_left(left, 5 * SECOND);
        assert_eq!(timer.read(), None);
        assert_left(timer.left().0, HOUR);
        // Long ago, near the beginning of the clock.
        timer.set(TFD_TIMER_ABSTIME, SECOND, 10 * SECOND);
        let expected = || (now(clock) - SECOND).as_secs() / 10 + 1;
        let (before, count) = (expected(), timer.read().unwrap());
        assert!((before..=expected()).contains(&count), "{count}");
        // Zero is no time.
        timer.set(TFD_TIMER_ABSTIME, ZERO, 7 * SECOND);
        assert_eq!((timer.left(), timer.read()), ((ZERO, 7 * SECOND), None));
    });
}

#[test]
fn errors_of_timers_are_those_of_the_kernel() {
    same(|clock| {
        let timer = Timer::new(clock, libc::TFD_NONBLOCK);
        assert_eq!((timer.left(), timer.read()), ((ZERO, ZERO), None));
        timer.set(0, HOUR, ZERO);
        assert_eq!(number(timer.try_set(4, SECOND, ZERO)), Some(libc::EINVAL));
        let bad = |value: libc::timespec, interval: libc::timespec| {
            let new = libc::itimerspec { it_value: value, it_interval: interval };
            // SAFETY: the time is this function's.
            number(checked(unsafe { libc::timerfd_settime(timer.fd(), 0, &new, ptr::null_mut()) }))
        };
        let zero = timespec(ZERO);
        let spec = |tv_sec, tv_nsec| libc::timespec { tv_sec, tv_nsec };
        let errors = [spec(-1, 0), spec(0, -1), spec(0, 1_000_000_000)]
            .map(|time| [bad(time, zero), bad(timespec(SECOND), time)]);
        assert_eq!(errors.as_flattened(), [Some(libc::EINVAL); 6]);
        assert_left(timer.left().0, HOUR);
        // SAFETY: no call accesses memory.
        let errors = unsafe {
            let none = libc::timerfd_settime(timer.fd(), 0, ptr::null(), ptr::null_mut());
            [number(checked(none)), number(checked(libc::timerfd_gettime(timer.fd(), ptr::null_mut())))]
        };
        assert_eq!(errors, [Some(libc::EFAULT); 2]);
        // The flag has an effect on timers for dates only.
        timer.set(TFD_TIMER_CANCEL_ON_SET, HOUR, ZERO);
        if clock != CLOCK_REALTIME {
            timer.set(TFD_TIMER_CANCEL_ON_SET | TFD_TIMER_ABSTIME, now(clock) + HOUR, ZERO);
        }
        assert_left(timer.left().0, HOUR);
    });
}

#[test]
fn a_timer_that_dates_may_cancel_is_not_simulated() {
    let cancels = || {
        let timer = Timer::new(CLOCK_REALTIME, 0);
        let flags = TFD_TIMER_CANCEL_ON_SET | TFD_TIMER_ABSTIME;
        _ = timer.try_set(flags, now(CLOCK_REALTIME) + HOUR, ZERO);
    };
    let failure = sim::Builder::new().shrink(false).try_explore(1, cancels).unwrap_err();
    assert!(failure.message().contains("TFD_TIMER_CANCEL_ON_SET"), "{}", failure.message());
}

#[test]
fn what_is_left_is_exact() {
    for (clock, flags) in [(CLOCK_MONOTONIC, 0), (CLOCK_REALTIME, 0), (CLOCK_REALTIME, TFD_TIMER_ABSTIME)] {
        sim::run(1, move || {
            let timer = Timer::new(clock, libc::TFD_NONBLOCK);
            let from = if flags == 0 { ZERO } else { now(clock) };
            timer.set(flags, from + 10 * SECOND, 30 * SECOND);
            let mut seen = Vec::new();
            for seconds in [0, 4, 7, 60] {
                thread::sleep(seconds * SECOND);
                seen.push(timer.left());
            }
            let expected = [10, 6, 29, 29].map(|seconds| (seconds * SECOND, 30 * SECOND));
            assert_eq!(seen, expected);
            assert_eq!(timer.read(), Some(3), "a look takes no expiration");
            assert_eq!(timer.left(), expected[3]);
            assert_eq!(timer.try_set(0, SECOND, ZERO).unwrap(), expected[3]);
            thread::sleep(2 * SECOND);
            assert_eq!((timer.left(), timer.read()), ((ZERO, ZERO), Some(1)));
        });
    }
}

#[test]
fn a_wait_for_a_date_takes_simulated_time() {
    sim::run(1, || {
        for clock in [CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME] {
            let timer = Timer::new(clock, 0);
            let (start, date) = (Instant::now(), SystemTime::now());
            timer.set(TFD_TIMER_ABSTIME, now(clock) + HOUR, ZERO);
            assert_eq!(timer.read(), Some(1));
            assert_eq!(start.elapsed(), HOUR);
            assert_eq!(date.elapsed().unwrap(), HOUR);
        }
    });
}

/// Sets the clock of a node by `by` seconds after a minute. Returns after how many seconds a timer there has
/// expired that was set for an hour.
fn expires_after(clock: i32, flags: i32, by: i32) -> u64 {
    sim::run(1, move || {
        let node = sim::node("node", move || {
            let (timer, start) = (Timer::new(clock, 0), Instant::now());
            let from = if flags == 0 { ZERO } else { now(clock) };
            timer.set(flags, from + HOUR, ZERO);
            assert_eq!(timer.read(), Some(1));
            start.elapsed().as_secs()
        });
        thread::sleep(60 * SECOND);
        let time = by.unsigned_abs() * SECOND;
        if by < 0 {
            node.delay_clock(time)
        } else {
            node.advance_clock(time)
        }
        node.join().unwrap()
    })
}

#[test]
fn a_timer_for_a_date_follows_the_clock() {
    let by_date = |by| expires_after(CLOCK_REALTIME, TFD_TIMER_ABSTIME, by);
    assert_eq!([by_date(0), by_date(600), by_date(-600)], [3600, 3000, 4200]);
    assert_eq!(by_date(7200), 60, "the date has come");
    for (clock, flags) in [(CLOCK_REALTIME, 0), (CLOCK_MONOTONIC, TFD_TIMER_ABSTIME), (CLOCK_BOOTTIME, 0)] {
        assert_eq!([expires_after(clock, flags, 600), expires_after(clock, flags, -600)], [3600; 2]);
    }
}

/// What has expired stays so. A clock that is set ahead adds the expirations of the time that it leaves out.
#[test]
fn a_clock_that_is_set_takes_no_expiration_back() {
    sim::run(1, || {
        let node = sim::node("node", || {
            let [once, repeated] = [(10, 0), (50, 10)].map(|(seconds, interval)| {
                let timer = Timer::new(CLOCK_REALTIME, libc::TFD_NONBLOCK);
                let date = now(CLOCK_REALTIME) + seconds * SECOND;
                timer.set(TFD_TIMER_ABSTIME, date, interval * SECOND);
                timer
            });
            thread::sleep(30 * SECOND);
            let (expired, left) = (once.read(), repeated.left().0);
            thread::sleep(30 * SECOND);
            (expired, left, repeated.read())
        });
        thread::sleep(20 * SECOND);
        node.delay_clock(HOUR);
        thread::sleep(20 * SECOND);
        node.advance_clock(HOUR + 600 * SECOND);
        // At 60 s it is as late as it was to be at 660 s.
        assert_eq!(node.join().unwrap(), (Some(1), HOUR + 20 * SECOND, Some(62)));
    });
}
