//! A snapshot as JSON. `json/forms.rs` says how each type is written.

mod forms;

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

use super::Snapshot;

/// The number in the field `version`. It grows when a field is removed or changes its meaning, not when one
/// is added.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Versioned<'s> {
    version: u32,
    #[serde(flatten)]
    snapshot: &'s Snapshot,
}

impl Snapshot {
    /// Returns the snapshot as JSON: an object with the fields of [`Snapshot`], and `version`, which is 1.
    /// Names of enums are in snake case: `"state": "waiting"`. A field without a value is `null`.
    ///
    /// Needs the feature `dump-json`.
    ///
    /// ```
    /// # runtime::block_on(|| {
    /// let json = runtime::dump::Snapshot::take().unwrap().to_json();
    /// assert!(json.starts_with(r#"{"version":1,"green_threads":[{"id":"#));
    /// # });
    /// ```
    pub fn to_json(&self) -> String {
        let mut json = Vec::new();
        self.write_json(&mut json).expect("a snapshot has strings as its keys");
        String::from_utf8(json).expect("JSON is text")
    }

    /// Writes what [`to_json`](Snapshot::to_json) returns, without keeping it in memory.
    ///
    /// # Errors
    ///
    /// Returns the errors of `w`.
    pub fn write_json(&self, w: &mut (impl Write + ?Sized)) -> io::Result<()> {
        let mut serializer = serde_json::Serializer::with_formatter(w, NoControls);
        Versioned { version: VERSION, snapshot: self }.serialize(&mut serializer).map_err(io::Error::from)
    }
}

/// Writes all control characters of strings by their numbers. JSON asks for that up to U+001F; a terminal
/// takes those from U+0080 on for escape sequences, too.
struct NoControls;

impl Formatter for NoControls {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, w: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(char::is_control) {
            let (before, from) = rest.split_at(at);
            w.write_all(before.as_bytes())?;
            let mut chars = from.chars();
            if let Some(control) = chars.next() {
                write!(w, "\\u{:04x}", u32::from(control))?;
            }
            rest = chars.as_str();
        }
        w.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::{
        Deadlock, DeadlockKind, DeadlockMember, Frame, GreenThread, Object, Reason, State, Wait,
    };
    use crate::metrics::HogPlace;
    use crate::stacks::place::Place;
    use std::time::Duration;

    #[test]
    fn no_string_has_a_control_character() {
        let name = "a\n\u{1b}[2J\u{7f}\u{9b}2J\u{e4}\"";
        let runtime = runtime::Builder::new().procs(1).build().unwrap();
        let parked = runtime
            .block_on(|| runtime::thread::Builder::new().name(name.into()).spawn(runtime::thread::park));
        let parked = parked.unwrap();
        let text = Snapshot::take().unwrap().to_json();
        let expected = "a\\n\\u001b[2J\\u007f\\u009b2J\u{e4}\\\"";
        assert!(text.contains(expected) && !text.contains(char::is_control), "{text}");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let threads = json["green_threads"].as_array().unwrap();
        assert!(threads.iter().any(|thread| thread["name"] == name), "{text}");
        parked.thread().unpark();
        parked.join().unwrap();
    }

    #[test]
    fn hogs_have_their_place() {
        let runtime = runtime::Builder::new().procs(1).build().unwrap();
        let line = line!() + 1;
        let hog = runtime.spawn(|| {
            // Runs when the P was taken from this one.
            let other = runtime::spawn(|| ());
            while !other.is_finished() {}
        });
        hog.join().unwrap();
        let json: serde_json::Value = serde_json::from_str(&Snapshot::take().unwrap().to_json()).unwrap();
        let hogs = json["hogs"].as_array().unwrap();
        let found = hogs.iter().find(|hog| hog["place"]["file"] == file!() && hog["place"]["line"] == line);
        let found = found.unwrap_or_else(|| panic!("{hogs:?}"));
        assert_eq!((found["computing"].as_u64(), found["away_ms"].is_u64()), (Some(1), true), "{found}");
    }

    #[test]
    fn the_fields_have_their_names() {
        let runtime = runtime::Builder::new().procs(2).track_locks(true).build().unwrap();
        let (json, holder) = runtime.block_on(|| {
            static MUTEX: runtime::sync::Mutex<()> = runtime::sync::Mutex::new(());
            let guard = MUTEX.lock();
            let named = runtime::thread::Builder::new().name("waits in JSON".into());
            let waits = named.spawn(|| drop(MUTEX.lock())).unwrap();
            let find = || {
                let json: serde_json::Value =
                    serde_json::from_str(&Snapshot::take().unwrap().to_json()).unwrap();
                let all = json["green_threads"].as_array().unwrap();
                let found = all.iter().find(|thread| thread["name"] == "waits in JSON").cloned();
                (json["version"] == 1 && json["deadlocks"] == serde_json::json!([])).then_some(found?)
            };
            let found = loop {
                match find() {
                    Some(found) if found["wait"]["object"]["kind"] == "mutex" => break found,
                    _ => runtime::sleep(Duration::from_millis(1)),
                }
            };
            drop(guard);
            waits.join().unwrap();
            (found, runtime::thread::current().id().as_u64().get())
        });
        assert_eq!(json["state"], "waiting");
        assert_eq!(json["wait"]["reason"], "mutex");
        assert_eq!(json["wait"]["object"]["holder"], holder);
        assert!(json["wait"]["waited_ms"].is_u64() && json["wait"]["due_in_ms"].is_null(), "{json}");
        assert_eq!((&json["wait"]["may_end"], &json["parent"]), (&false.into(), &holder.into()));
        assert_eq!(json["spawned_at"]["file"], file!());
        let stacks = cfg!(all(feature = "dump-stacks", target_os = "linux", target_arch = "x86_64"));
        assert_eq!(json["stack"].is_u64(), stacks, "{json}");
    }

    /// All that a snapshot can have, in one.
    /// Returns a deadlock with all that one can have.
    fn deadlock() -> Deadlock {
        let member = DeadlockMember {
            id: 1,
            name: Some("a".into()),
            waits_for: "a mutex".into(),
            number: 3,
            stack: vec![Frame { function: "f".into(), file: None, line: None }],
        };
        Deadlock {
            certain: true,
            kind: DeadlockKind::Leak,
            members: vec![member],
            behind: 2,
            leaked: Some(7),
        }
    }

    #[test]
    fn each_field_is_written() {
        let here = std::panic::Location::caller();
        let place = Some(Place::of(here));
        let thread = |id, state, wait| GreenThread {
            id,
            name: (id == 1).then(|| "a".into()),
            state,
            wait,
            spawned_at: place.filter(|_| id == 1),
            labels: if id == 1 { vec![("k\n".into(), "v".into())] } else { vec![] },
            parent: None,
            scope: Some(2),
            future: Some("F".into()),
            stack: Some(0),
            spawn_stack: None,
            shares: vec![8],
            line: None,
        };
        let wait = |reason, object| Wait {
            reason,
            waited: Duration::from_micros(2500),
            due_in: (reason == Reason::Sleep).then_some(Duration::from_millis(7)),
            may_end: true,
            number: Some(3),
            object,
        };
        let objects = vec![
            Some(Object::Mutex { address: 8, locked: true, holder: Some(1) }),
            Some(Object::RwLock {
                address: 9,
                readers: 2,
                writer: false,
                holder: None,
                waiting_readers: vec![1, 2],
                to_write: true,
            }),
            Some(Object::GreenThread { id: 4 }),
            Some(Object::Scope { green_threads: vec![5] }),
            Some(Object::Channel { address: 10, senders: 1, receivers: 2, messages: 3, capacity: Some(4) }),
            Some(Object::Descriptor { fd: 5, local: Some("l".into()), peer: None, to_write: false }),
            None,
        ];
        let snapshot = Snapshot {
            green_threads: vec![
                thread(
                    1,
                    State::Waiting,
                    Some(wait(Reason::RwLock, Some(Object::Select { cases: objects }))),
                ),
                thread(2, State::Ready, Some(wait(Reason::Sleep, None))),
                thread(3, State::Running, None),
            ],
            stacks: vec![vec![Frame { function: "f".into(), file: Some("x.rs".into()), line: Some(1) }]],
            deadlocks: vec![deadlock()],
            hogs: vec![HogPlace {
                place: Some(here),
                computing: 1,
                blocked: 2,
                away: Duration::from_millis(3),
                stack: vec![],
            }],
            plain_threads: vec![6],
        };
        let (line, column) = (here.line(), here.column());
        let at = format!(r#"{{"file":"{}","line":{line},"column":{column}}}"#, here.file().escape_default());
        assert_eq!(snapshot.to_json().replace(&at, "HERE"), EXPECTED);
    }

    const EXPECTED: &str = concat!(
        r#"{"version":1,"green_threads":[{"id":1,"name":"a","state":"waiting","#,
        r#""wait":{"reason":"rw_lock","waited_ms":2,"due_in_ms":null,"may_end":true,"number":3,"#,
        r#""object":{"kind":"select","cases":[{"kind":"mutex","address":8,"locked":true,"holder":1},"#,
        r#"{"kind":"rw_lock","address":9,"readers":2,"writer":false,"holder":null,"#,
        r#""waiting_readers":[1,2],"to_write":true},{"kind":"green_thread","id":4},{"kind":"scope","#,
        r#""green_threads":[5]},{"kind":"channel","address":10,"senders":1,"receivers":2,"#,
        r#""messages":3,"capacity":4},{"kind":"descriptor","fd":5,"local":"l","peer":null,"#,
        r#""to_write":false},null]}},"spawned_at":HERE,"labels":{"k\n":"v"},"parent":null,"scope":2,"future":"F","#,
        r#""stack":0,"spawn_stack":null},{"id":2,"name":null,"state":"ready","#,
        r#""wait":{"reason":"sleep","waited_ms":2,"due_in_ms":7,"may_end":true,"number":3,"#,
        r#""object":null},"spawned_at":null,"labels":{},"parent":null,"scope":2,"future":"F","stack":0,"#,
        r#""spawn_stack":null},{"id":3,"name":null,"state":"running","wait":null,"spawned_at":null,"#,
        r#""labels":{},"parent":null,"scope":2,"future":"F","stack":0,"spawn_stack":null}],"stacks":[["#,
        r#"{"function":"f","file":"x.rs","line":1}]],"deadlocks":[{"certain":true,"kind":"leak","#,
        r#""members":[{"id":1,"name":"a","waits_for":"a mutex","number":3,"stack":[{"function":"f","#,
        r#""file":null,"line":null}]}],"behind":2}],"hogs":[{"place":HERE,"computing":1,"blocked":2,"#,
        r#""away_ms":3,"stack":[]}]}"#,
    );
}
