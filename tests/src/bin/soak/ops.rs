//! The operations: the table of all operations, and how an operation is chosen.
//!
//! An operation checks its own results and leaves nothing behind. A cancellation or a time-out around the
//! operation may interrupt it at any parking call. The children of an [`Actor`] then end by themselves.

mod blocking;
mod broken;
mod cancelling;
mod channels;
mod futures;
mod locals;
mod looking;
mod net;
mod panicking;
mod parking;
mod pinning;
mod resizing;
mod runtimes;
mod scopes;
mod selecting;
mod sleeping;
mod sockets;
mod spawning;
mod timeouts;
mod timers;
mod victims;

use std::sync::OnceLock;

use tests::Random;

use crate::actor::Actor;
use crate::settings::Settings;

/// A line of the table.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) name: &'static str,
    /// How often the operation is chosen, relative to others. With 0 it is chosen only by its name.
    pub(crate) weight: u64,
    size: Size,
    pub(crate) run: fn(&mut Actor),
}

/// The depths at which an operation may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Size {
    /// At every depth: the operation spawns a few threads at most.
    Leaf,
    /// Above `DEEPEST`: the operation performs others within itself.
    Branch,
    /// Near the top: the operation starts runtimes, or many green threads.
    Heavy,
}

/// From this depth on only leaves are chosen.
pub(crate) const DEEPEST: u32 = 3;

const fn leaf(name: &'static str, weight: u64, run: fn(&mut Actor)) -> Op {
    Op { name, weight, size: Size::Leaf, run }
}

const fn branch(name: &'static str, weight: u64, run: fn(&mut Actor)) -> Op {
    Op { name, weight, size: Size::Branch, run }
}

const fn heavy(name: &'static str, weight: u64, run: fn(&mut Actor)) -> Op {
    Op { name, weight, size: Size::Heavy, run }
}

#[rustfmt::skip]
pub(crate) static OPS: &[Op] = &[
    // The first line must be a leaf: it is chosen where the menu has no allowed operation.
    leaf("sleep", 40, sleeping::sleep),
    leaf("sleep-until", 20, sleeping::sleep_until),
    leaf("sleep-async", 20, sleeping::sleep_async),
    leaf("no-sleep", 5, sleeping::no_sleep),
    leaf("yield", 20, spawning::yields),
    leaf("ask", 40, parking::ask),
    leaf("park-timeout", 20, parking::park_timeout),
    leaf("token-first", 10, parking::token_first),
    leaf("stale", 8, parking::stale),
    leaf("crowd", 8, parking::crowd),
    leaf("circle", 8, parking::circle),
    branch("spawn-join", 30, spawning::spawn_and_join),
    branch("tree", 6, spawning::tree),
    branch("detach", 10, spawning::detach),
    heavy("burst", 4, spawning::burst),
    leaf("named", 10, spawning::named),
    leaf("odd-stack", 10, spawning::odd_stack),
    leaf("impossible-stack", 3, spawning::impossible_stack),
    branch("elsewhere", 6, spawning::elsewhere),
    branch("scope", 12, scopes::borrows),
    branch("scope-nested", 6, scopes::nested),
    leaf("scope-panic", 6, scopes::panics),
    leaf("cancel-victim", 30, cancelling::victim),
    leaf("cancel-fresh", 8, cancelling::not_started),
    branch("cancel-anything", 20, cancelling::anything),
    leaf("timeout", 20, timeouts::runs_out),
    leaf("timeout-nested", 8, timeouts::nested),
    branch("timeout-in-time", 8, timeouts::in_time),
    branch("timeout-anything", 20, timeouts::anything),
    leaf("timeout-async", 12, timeouts::for_futures),
    leaf("timer", 20, timers::timer),
    leaf("ticker", 8, timers::ticker),
    leaf("after-func", 16, timers::function),
    leaf("context", 12, timers::context),
    leaf("pin", 6, pinning::stays),
    branch("pin-anything", 3, pinning::anything),
    leaf("keeps-thread", 10, pinning::keeps_its_thread),
    leaf("thread-local", 10, locals::own_values),
    leaf("thread-local-end", 10, locals::destructors),
    leaf("blocking", 12, blocking::declared),
    leaf("blocking-panic", 3, blocking::panics),
    branch("blocking-anything", 4, blocking::around_anything),
    leaf("blocked", 3, blocking::undeclared),
    leaf("std-channel", 4, blocking::on_a_std_channel),
    leaf("compute", 20, blocking::computes),
    leaf("hog", 1, blocking::hogs),
    branch("future", 20, futures::spawned),
    leaf("future-chain", 6, futures::chain),
    leaf("future-wakes", 8, futures::wakes_itself),
    leaf("future-flag", 10, futures::flag),
    leaf("future-moved", 8, futures::moved),
    leaf("future-half-joined", 10, futures::half_joined),
    leaf("future-stale", 8, futures::stale_waker),
    branch("future-blocks", 8, futures::blocks_in_its_poll),
    leaf("future-nested", 6, futures::nested),
    leaf("future-plain", 2, futures::on_a_plain_executor),
    leaf("panic", 10, panicking::in_a_task),
    leaf("panic-parks", 8, panicking::parks_while_unwinding),
    leaf("panic-unwanted", 6, panicking::of_an_unwanted_result),
    leaf("waker", 3, panicking::in_a_waker),
    branch("panic-caught", 6, panicking::caught),
    leaf("echo", 10, net::echo),
    leaf("half-close", 4, net::half_close),
    leaf("both-ways", 2, net::both_ways),
    leaf("dropped-peer", 4, net::dropped_peer),
    leaf("accept-cancelled", 4, net::accept_cancelled),
    leaf("read-timeout", 4, net::read_timeout),
    leaf("refused", 2, net::refused),
    leaf("channel", 20, channels::pipe),
    leaf("channel-crowd", 20, channels::crowd),
    leaf("channel-victim", 10, channels::victim),
    leaf("channel-futures", 10, channels::futures),
    leaf("select", 16, channels::several),
    leaf("select-trade", 10, channels::trade),
    leaf("select-events", 10, selecting::events),
    leaf("channel-timed", 8, channels::timed),
    heavy("storm", 1, sockets::storm),
    leaf("read-timeouts", 4, sockets::timeouts),
    leaf("converted", 3, sockets::converted),
    leaf("datagrams", 3, sockets::datagrams),
    #[cfg(unix)]
    leaf("unix-pair", 2, sockets::unix_pair),
    #[cfg(unix)]
    leaf("pipe", 4, sockets::pipe),
    leaf("metrics", 3, looking::metrics),
    leaf("current", 10, looking::current),
    branch("resize-home", 2, resizing::home),
    heavy("resize-own", 1, resizing::own),
    heavy("runtime", 2, runtimes::made_and_dropped),
    heavy("runtime-victims", 2, runtimes::dropped_under_load),
    heavy("runtime-late", 1, runtimes::late),
    heavy("runtime-race", 1, runtimes::spawns_race_with_the_end),
    heavy("runtime-socket", 1, runtimes::a_socket_outlives_it),
    heavy("runtime-sleep", 1, runtimes::a_sleep_outlives_it),
    heavy("runtime-caller", 1, runtimes::a_caller_waits_in_it),
    heavy("across", 4, runtimes::across),
    // Each of these is a defect on purpose. `tests/tests/runtimes/soak.rs` checks that the soak reports it.
    leaf("broken-hang", 0, broken::hangs),
    leaf("broken-check", 0, broken::check_fails),
    leaf("broken-drop", 0, broken::drop_is_lost),
    leaf("broken-descriptor", 0, broken::descriptor_is_lost),
    leaf("broken-thread", 0, broken::thread_is_left),
    leaf("broken-late", 0, broken::wakes_late),
];

/// Operations that hog a P, or block an OS thread until another green thread has run.
const NEEDS_SYSMON: &[&str] = &["blocked", "std-channel", "hog", "converted", "future-plain"];

/// For each size: the numbers of the allowed operations, each as often as its weight.
static MENU: OnceLock<[Vec<usize>; 3]> = OnceLock::new();

/// Prints the operations and their weights.
pub(crate) fn show() {
    OPS.iter().for_each(|op| println!("{:5}  {}", op.weight, op.name));
}

/// Makes the menu: the operations that the settings name, or all. Without sysmon it leaves out operations
/// that need sysmon.
pub(crate) fn set_menu(settings: &Settings) {
    let chosen = |op: &Op| match settings.ops.as_slice() {
        _ if !settings.sysmon && NEEDS_SYSMON.contains(&op.name) => 0,
        [] => op.weight,
        only if only.iter().any(|one| one.name == op.name) => op.weight.max(1),
        _ => 0,
    };
    let menu = [Size::Leaf, Size::Branch, Size::Heavy].map(|size| {
        let allowed = OPS.iter().enumerate().filter(|(_, op)| op.size <= size);
        let menu: Vec<usize> =
            allowed.flat_map(|(number, op)| std::iter::repeat_n(number, chosen(op) as usize)).collect();
        if menu.is_empty() { vec![0] } else { menu }
    });
    MENU.set(menu).expect("the menu is set once");
}

fn menu() -> &'static [Vec<usize>; 3] {
    MENU.get().expect("the menu is set before the first choice")
}

pub(crate) fn is_on_menu(op: &Op) -> bool {
    menu().iter().flatten().any(|&number| OPS[number].name == op.name)
}

/// Chooses an operation to be performed at `depth`, and returns its number.
pub(crate) fn choose(random: &mut Random, depth: u32) -> usize {
    let size = match depth {
        0 => Size::Heavy,
        1 if random.below(4) == 0 => Size::Heavy,
        1..DEEPEST => Size::Branch,
        _ => Size::Leaf,
    };
    let menu = &menu()[size as usize];
    menu[random.below(menu.len() as u64) as usize]
}
