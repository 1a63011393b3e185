//! Measures how the files of each crate depend on each other, and fails if a crate exceeds its bounds.
//!
//! A file depends on another one if it names an item of that file by a path (in `use`, in code, in a macro),
//! or if it calls a method that only that file defines for a type that several files extend (`Sched`, `M`). A
//! path that leads through a re-export counts for the file that defines the item. Items that only tests and
//! models build do not count.
//!
//! `layout FOLDER [--arrows]` measures the crates in `FOLDER`; `--arrows` also prints each dependency between
//! rooms. A room is a file or a folder at the top of a crate's sources.

mod arrows;
mod circles;
mod crates;
mod methods;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use arrows::Arrows;
use crates::Crate;

/// What a crate may have at most. A change that lowers a figure lowers its bound, too.
struct Bounds {
    folder: &'static str,
    /// Rooms, and pairs of rooms that import each other.
    rooms: usize,
    pairs: usize,
    /// Files of the largest circle of imports that goes through several rooms, and of the largest circle of
    /// rooms.
    circle: usize,
    circle_of_rooms: usize,
    /// Files of the largest circle of imports that stays in one room.
    circle_in_room: usize,
    /// As `circle`, and counts calls of methods as well.
    circle_with_methods: usize,
    /// How often the sources name a feature.
    features: usize,
}

const BOUNDS: &[Bounds] = &[
    Bounds {
        folder: "timers",
        rooms: 10,
        pairs: 0,
        circle: 0,
        circle_of_rooms: 0,
        circle_in_room: 2,
        circle_with_methods: 0,
        features: 0,
    },
    Bounds {
        folder: "netpoll",
        rooms: 13,
        pairs: 1,
        circle: 2,
        circle_of_rooms: 2,
        circle_in_room: 0,
        circle_with_methods: 2,
        features: 22,
    },
    Bounds {
        folder: "sched",
        rooms: 18,
        pairs: 0,
        circle: 0,
        circle_of_rooms: 0,
        circle_in_room: 5,
        circle_with_methods: 13,
        features: 46,
    },
    Bounds {
        folder: "sysmon",
        rooms: 3,
        pairs: 0,
        circle: 0,
        circle_of_rooms: 0,
        circle_in_room: 0,
        circle_with_methods: 0,
        features: 0,
    },
    Bounds {
        folder: "runtime",
        rooms: 37,
        pairs: 2,
        circle: 5,
        circle_of_rooms: 3,
        circle_in_room: 4,
        circle_with_methods: 5,
        features: 79,
    },
    Bounds {
        folder: "runtime/inspect",
        rooms: 8,
        pairs: 0,
        circle: 0,
        circle_of_rooms: 0,
        circle_in_room: 5,
        circle_with_methods: 16,
        features: 16,
    },
    Bounds {
        folder: "runtime/interpose",
        rooms: 21,
        pairs: 0,
        circle: 0,
        circle_of_rooms: 0,
        circle_in_room: 2,
        circle_with_methods: 0,
        features: 1,
    },
    Bounds {
        folder: "runtime/sim",
        rooms: 28,
        pairs: 1,
        circle: 11,
        circle_of_rooms: 3,
        circle_in_room: 0,
        circle_with_methods: 19,
        features: 1,
    },
    Bounds {
        folder: "runtime/waits",
        rooms: 5,
        pairs: 0,
        circle: 0,
        circle_of_rooms: 0,
        circle_in_room: 3,
        circle_with_methods: 0,
        features: 2,
    },
];

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let root = args.next().expect("usage: layout FOLDER [--arrows]");
    let prints_arrows = args.any(|arg| arg == "--arrows");
    let mut over = Vec::new();
    for bounds in BOUNDS {
        let measured = Crate::load(&Path::new(&root).join(bounds.folder).join("src"));
        over.extend(report(&measured, bounds, prints_arrows));
    }
    if over.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("ci/layout: over the bound: {}", over.join(", "));
    ExitCode::FAILURE
}

/// Prints the figures of a crate. Returns those that exceed their bounds.
fn report(measured: &Crate, bounds: &Bounds, prints_arrows: bool) -> Vec<String> {
    let imports = arrows::imports(measured);
    let mut with_methods = imports.clone();
    with_methods.extend(methods::calls(measured));
    let between = between_rooms(measured, &imports);
    if prints_arrows {
        print_arrows(measured, &between);
        print_arrows(measured, &within_rooms(measured, &imports));
        println!("calls of methods of shared types");
        let calls = methods::calls(measured);
        calls.iter().for_each(|(files, name)| print_arrow(measured, *files, name));
    }
    let pairs: Vec<_> =
        between.keys().filter(|(a, b)| a < b && between.contains_key(&(b.clone(), a.clone()))).collect();
    let circle_of_rooms = circles::largest(between.keys().cloned());
    let (circle, in_room) = circles_of(measured, &imports);
    let (circle_with_methods, _) = circles_of(measured, &with_methods);
    let mut over = Vec::new();
    let mut line = |what: &str, value: usize, bound: usize, which: &[String]| {
        println!(
            "  {what}: {value} (at most {bound}){}{}",
            if which.is_empty() { "" } else { ": " },
            which.join(" ")
        );
        if value > bound {
            over.push(format!("{} of {}", what, bounds.folder));
        }
    };
    println!("{}: {} files, {} lines", bounds.folder, measured.files.len(), measured.lines());
    let rooms = measured.rooms();
    line("rooms", rooms.len(), bounds.rooms, &[]);
    let named: Vec<String> = pairs.iter().map(|(a, b)| format!("{a}<->{b}")).collect();
    line("rooms that import each other", pairs.len(), bounds.pairs, &named);
    line("largest circle of rooms", circle_of_rooms.len(), bounds.circle_of_rooms, &circle_of_rooms);
    line("largest circle of files by imports", circle.len(), bounds.circle, &circle);
    line("largest circle of files in one room", in_room.len(), bounds.circle_in_room, &in_room);
    line("the same with methods of shared types", circle_with_methods.len(), bounds.circle_with_methods, &[]);
    line("features named", measured.features, bounds.features, &[]);
    over
}

/// The dependencies between rooms, each with its files and a name.
type Between = BTreeMap<(String, String), Vec<(usize, usize, String)>>;

fn between_rooms(measured: &Crate, arrows: &Arrows) -> Between {
    by_rooms(measured, arrows, |from, to| from != to)
}

fn within_rooms(measured: &Crate, arrows: &Arrows) -> Between {
    by_rooms(measured, arrows, |from, to| from == to)
}

fn by_rooms(measured: &Crate, arrows: &Arrows, counts: impl Fn(&str, &str) -> bool) -> Between {
    let mut between = Between::new();
    for (&(a, b), name) in arrows {
        let (from, to) = (measured.files[a].room(), measured.files[b].room());
        // The root of the crate re-exports names of all rooms.
        if counts(from, to) && !measured.files[a].is_root() && !measured.files[b].is_root() {
            between.entry((from.to_owned(), to.to_owned())).or_default().push((a, b, name.clone()));
        }
    }
    between
}

fn print_arrows(measured: &Crate, between: &Between) {
    for ((from, to), files) in between {
        let both =
            if from != to && between.contains_key(&(to.clone(), from.clone())) { "   (two-way)" } else { "" };
        println!("{from} -> {to}{both}");
        for (a, b, name) in files {
            print_arrow(measured, (*a, *b), name);
        }
    }
}

fn print_arrow(measured: &Crate, (from, to): (usize, usize), name: &str) {
    println!("    {} -> {}: {name}", measured.files[from].name, measured.files[to].name);
}

/// Returns the largest circle of files that goes through several rooms, and the largest that stays in one.
/// The root of the crate re-exports names of all rooms, and does not count.
fn circles_of(measured: &Crate, arrows: &Arrows) -> (Vec<String>, Vec<String>) {
    let arrows =
        arrows.keys().filter(|(a, b)| !measured.files[*a].is_root() && !measured.files[*b].is_root());
    let (mut several, mut one) = (Vec::new(), Vec::new());
    for circle in circles::all(arrows.copied()) {
        let first = measured.files[circle[0]].room();
        let is_in_one = circle.iter().all(|&file| measured.files[file].room() == first);
        let largest = if is_in_one { &mut one } else { &mut several };
        if circle.len() > largest.len() {
            *largest = circle;
        }
    }
    let names = |circle: Vec<usize>| circle.iter().map(|&file| measured.files[file].name.clone()).collect();
    (names(several), names(one))
}
