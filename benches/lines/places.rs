//! The source places of accesses: `addr2line` on this program itself.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

/// The name of a place: the file from the top of the workspace, the function, and the line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) file: String,
    pub(crate) function: String,
    pub(crate) line: String,
}

/// Returns the place of each return address. The program is linked for fixed addresses.
pub(crate) fn find(addresses: &BTreeSet<usize>) -> BTreeMap<usize, Place> {
    let program = std::env::current_exe().expect("the program has a path");
    let mut child = Command::new("addr2line")
        .args(["-a", "-i", "-f", "-C", "-e"])
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("addr2line is installed (Debian: binutils)");
    let mut input = child.stdin.take().expect("a pipe");
    // The call is before the address to which it returns.
    let text: String = addresses.iter().map(|address| format!("{:#x}\n", address - 1)).collect();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).expect("addr2line reads"));
    let output = child.wait_with_output().expect("addr2line runs");
    writer.join().expect("the writer does not panic");
    let output = String::from_utf8_lossy(&output.stdout);
    let mut places = BTreeMap::new();
    let mut lines = output.lines().peekable();
    while let Some(address) = lines.next() {
        let address = usize::from_str_radix(address.trim_start_matches("0x"), 16).expect("an address") + 1;
        let mut frames = Vec::new();
        while let Some(function) = lines.next_if(|line| !line.starts_with("0x")) {
            frames.push(place(function, lines.next().unwrap_or_default()));
        }
        places.extend(choose(frames).map(|place| (address, place)));
    }
    places
}

/// The wrappers of atomics and locks: each is as good as std.
const WRAPPERS: [&str; 2] = ["/src/sync.rs", "/src/sync/hold.rs"];

/// Of the inlined frames, innermost first, takes the first in the workspace, else the first in another crate
/// than std. A closure has the name of the function around it.
fn choose(frames: Vec<Place>) -> Option<Place> {
    let of_workspace = |place: &Place| {
        !place.file.starts_with(['<', '/', '?'])
            && !WRAPPERS.iter().any(|wrapper| place.file.ends_with(wrapper))
    };
    let not_std = |place: &Place| !place.file.starts_with("<std>");
    let at = frames.iter().position(of_workspace).or(frames.iter().position(not_std)).unwrap_or(0);
    let mut found = frames.get(at)?.clone();
    let named = frames[at..].iter().find(|frame| !frame.function.starts_with('{') && not_std(frame));
    found.function = named.map_or("closure", |frame| &frame.function).to_string();
    Some(found)
}

/// Makes a place of addr2line's two lines.
fn place(function: &str, at: &str) -> Place {
    let at = at.split(" (discriminator").next().unwrap_or_default();
    let (file, line) = at.rsplit_once(':').unwrap_or((at, "?"));
    let top = std::env::current_dir().map(|top| format!("{}/", top.display())).unwrap_or_default();
    let file = match file.split_once("/registry/src/") {
        // The name of the registry's folder and the crate's version are left out.
        Some((_, rest)) => match rest.splitn(3, '/').collect::<Vec<_>>()[..] {
            [_, package, path] => {
                format!("<{}>/{path}", package.rsplit_once('-').map_or(package, |(name, _)| name))
            }
            _ => format!("<{rest}>"),
        },
        None => match file.split_once("/library/") {
            Some((_, path)) => format!("<std>/{path}"),
            None => file.trim_start_matches(&top).to_string(),
        },
    };
    Place { file, function: short(function), line: line.to_string() }
}

/// Returns a function's last name, without its generic arguments and hash.
fn short(function: &str) -> String {
    let (mut depth, mut name) = (0, String::new());
    for letter in function.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ if depth == 0 => name.push(letter),
            _ => {}
        }
    }
    let is_hash = |part: &str| part.len() == 17 && part.starts_with('h');
    let last = name.rsplit("::").find(|part| !part.is_empty() && !part.starts_with('{') && !is_hash(part));
    last.unwrap_or("{closure}").to_string()
}

#[cfg(test)]
mod tests {
    use super::{choose, place, short};

    #[test]
    fn the_last_name_of_a_function() {
        assert_eq!(short("sched::run::wake::<impl sched::run::Sched>::ready::h0123456789abcdef"), "ready");
        assert_eq!(short("<sched::p::P as core::ops::drop::Drop>::drop"), "drop");
        assert_eq!(short("runtime::spawn::spawn::{{closure}}"), "spawn");
        assert_eq!(short("main"), "main");
        assert_eq!(short("{closure#0}<sched::asleep::idle::Lists<u8>>"), "{closure}");
    }

    #[test]
    fn the_innermost_frame_of_the_workspace_is_the_place() {
        let frames = vec![
            place("core::sync::atomic::atomic_add", "/rustc/abc/library/core/src/sync/atomic.rs:9"),
            place("push", "/x/registry/src/index-1/crossbeam-deque-0.8.6/src/deque.rs:7 (discriminator 2)"),
            place("wake", "sched/src/run/wake.rs:3"),
            place("run", "sched/src/run/run_loop.rs:4"),
        ];
        assert_eq!(frames[1].file, "<crossbeam-deque>/src/deque.rs");
        assert_eq!(frames[1].line, "7");
        assert_eq!(choose(frames.clone()).expect("a place").function, "wake");
        let closure = place("{closure#0}<u8>", "sched/src/sync.rs:46");
        assert_eq!(choose([vec![closure], frames.clone()].concat()).expect("a place").function, "wake");
        let closure = place("{closure#0}<u8>", "sched/src/run/find.rs:46");
        let found = choose([vec![closure], frames.clone()[2..].to_vec()].concat()).expect("a place");
        assert_eq!((&*found.file, &*found.function), ("sched/src/run/find.rs", "wake"));
        assert_eq!(choose(frames[..2].to_vec()).expect("a place").function, "push");
    }
}
