//! A snapshot as a profile in pprof's format: how many green threads have each stack, and how long these have waited in all.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use prost::Message;

use super::groups::{self, Key};
use super::{Frame, GreenThread, Snapshot};

/// The messages of pprof's `profile.proto`, without the fields that a dump leaves empty.
mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub(super) sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub(super) sample: Vec<Sample>,
        #[prost(message, repeated, tag = "4")]
        pub(super) location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub(super) function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub(super) string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub(super) time_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub(super) period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub(super) period: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(super) struct ValueType {
        #[prost(int64, tag = "1")]
        pub(super) r#type: i64,
        #[prost(int64, tag = "2")]
        pub(super) unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub(super) location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub(super) value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub(super) label: Vec<Label>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(super) struct Label {
        #[prost(int64, tag = "1")]
        pub(super) key: i64,
        #[prost(int64, tag = "2")]
        pub(super) str: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Location {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(message, repeated, tag = "4")]
        pub(super) line: Vec<Line>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(super) struct Line {
        #[prost(uint64, tag = "1")]
        pub(super) function_id: u64,
        #[prost(int64, tag = "2")]
        pub(super) line: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(super) struct Function {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(int64, tag = "2")]
        pub(super) name: i64,
        #[prost(int64, tag = "3")]
        pub(super) system_name: i64,
        #[prost(int64, tag = "4")]
        pub(super) filename: i64,
    }
}

impl Snapshot {
    /// Returns the snapshot as a profile in pprof's format, which `go tool pprof` and Perfetto's and Speedscope's pages read. It has
    /// a sample for each group of [`grouped`](Snapshot::grouped), with two values: the number of green threads, and how long they
    /// had waited in all. The innermost frame says what they did, as "waits for a mutex". The outermost one is the place of the
    /// spawn.
    ///
    /// The bytes are not compressed; pprof reads them as they are. Needs the feature `dump-pprof`.
    ///
    /// ```
    /// # runtime::block_on(|| {
    /// let profile = runtime::dump::Snapshot::take().unwrap().to_pprof();
    /// assert!(profile.windows(13).any(|text| text == b"green_threads"));
    /// # });
    /// ```
    pub fn to_pprof(&self) -> Vec<u8> {
        let mut profile = Builder::new();
        groups::group(self).into_iter().for_each(|(key, threads)| profile.add(self, key, &threads));
        profile.profile.encode_to_vec()
    }

    /// Writes what [`to_pprof`](Snapshot::to_pprof) returns.
    ///
    /// # Errors
    ///
    /// Returns the errors of `w`.
    pub fn write_pprof(&self, w: &mut (impl Write + ?Sized)) -> io::Result<()> {
        w.write_all(&self.to_pprof())
    }
}

/// A profile in the making. Its ids are places in its lists, from 1.
struct Builder {
    profile: proto::Profile,
    strings: HashMap<String, i64>,
    /// The locations by function, file and line.
    locations: HashMap<Frame, u64>,
    functions: HashMap<(String, Option<String>), u64>,
}

impl Builder {
    fn new() -> Builder {
        let mut this = Builder {
            profile: proto::Profile::default(),
            strings: HashMap::new(),
            locations: HashMap::new(),
            functions: HashMap::new(),
        };
        // The first string must be empty.
        this.string("");
        let count = proto::ValueType { r#type: this.string("green_threads"), unit: this.string("count") };
        let waited = proto::ValueType { r#type: this.string("waited"), unit: this.string("nanoseconds") };
        this.profile.sample_type = vec![count, waited];
        (this.profile.period_type, this.profile.period) = (Some(count), 1);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        this.profile.time_nanos = nanos(now);
        this
    }

    fn add(&mut self, snapshot: &Snapshot, key: Key, threads: &[&GreenThread]) {
        let does = match key.reason {
            Some(reason) => format!("{} for {reason}", key.state),
            None => key.state.to_string(),
        };
        let named = |function: String, file, line| Frame { function, file, line };
        let stack = key.stack.and_then(|stack| snapshot.stacks.get(stack)).into_iter().flatten().cloned();
        let spawned =
            key.place.map(|place| named("spawned".into(), Some(place.file.into()), Some(place.line)));
        let frames = std::iter::once(named(does.clone(), None, None)).chain(stack).chain(spawned);
        let location_id = frames.map(|frame| self.location(frame)).collect();
        let waited = threads.iter().filter_map(|thread| Some(thread.wait.as_ref()?.waited)).sum();
        let label = proto::Label { key: self.string("does"), str: self.string(&does) };
        let value = vec![i64::try_from(threads.len()).unwrap_or(i64::MAX), nanos(waited)];
        self.profile.sample.push(proto::Sample { location_id, value, label: vec![label] });
    }

    fn location(&mut self, frame: Frame) -> u64 {
        if let Some(&id) = self.locations.get(&frame) {
            return id;
        }
        let line = frame.line.unwrap_or_default().into();
        let function_id = self.function(&frame);
        let id = self.profile.location.len() as u64 + 1;
        self.profile.location.push(proto::Location { id, line: vec![proto::Line { function_id, line }] });
        self.locations.insert(frame, id);
        id
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        let key = (frame.function.clone(), frame.file.clone());
        if let Some(&id) = self.functions.get(&key) {
            return id;
        }
        let (name, filename) = (self.string(&key.0), self.string(key.1.as_deref().unwrap_or_default()));
        let id = self.profile.function.len() as u64 + 1;
        self.profile.function.push(proto::Function { id, name, system_name: name, filename });
        self.functions.insert(key, id);
        id
    }

    fn string(&mut self, text: &str) -> i64 {
        if let Some(&at) = self.strings.get(text) {
            return at;
        }
        let at = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), at);
        at
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes the profile, and reads each sample as the names of its frames and its values.
    fn samples(bytes: &[u8]) -> Vec<(Vec<String>, Vec<i64>)> {
        let profile = proto::Profile::decode(bytes).unwrap();
        assert_eq!(profile.string_table[0], "");
        let text = |at: i64| profile.string_table[usize::try_from(at).unwrap()].clone();
        let units: Vec<_> = profile.sample_type.iter().map(|of| (text(of.r#type), text(of.unit))).collect();
        assert_eq!(
            units,
            [("green_threads".into(), "count".into()), ("waited".into(), "nanoseconds".into())]
        );
        let name = |id: &u64| {
            let location = profile.location.iter().find(|location| location.id == *id).unwrap();
            let line = location.line[0];
            let function = profile.function.iter().find(|function| function.id == line.function_id).unwrap();
            format!("{} {}:{}", text(function.name), text(function.filename), line.line)
        };
        profile.sample.iter().map(|s| (s.location_id.iter().map(name).collect(), s.value.clone())).collect()
    }

    #[test]
    fn each_group_is_a_sample_with_its_stack() {
        let runtime = crate::Builder::new().procs(2).build().unwrap();
        let (samples, place) = runtime.block_on(|| {
            let place = line!() + 1;
            let parked: Vec<_> = (0..7).map(|_| crate::spawn(crate::thread::park)).collect();
            let find = |snapshot: &Snapshot| {
                let found = samples(&snapshot.to_pprof()).into_iter();
                found
                    .filter(|(names, _)| names.last().unwrap().ends_with(&format!("pprof.rs:{place}")))
                    .collect()
            };
            let found = loop {
                let snapshot = Snapshot::take().unwrap();
                let found: Vec<_> = find(&snapshot);
                if let [(names, values)] = &*found
                    && values[0] == 7
                    && names[0] == "waits for an unpark :0"
                {
                    break found;
                }
                crate::sleep(Duration::from_millis(1));
            };
            parked.iter().for_each(|thread| thread.thread().unpark());
            parked.into_iter().for_each(|thread| thread.join().unwrap());
            (found, place)
        });
        let names = &samples[0].0;
        assert_eq!(names.last().unwrap(), &format!("spawned {}:{place}", file!()));
        let stacks = cfg!(all(feature = "dump-stacks", target_os = "linux", target_arch = "x86_64"));
        assert_eq!(names.iter().any(|name| name.contains("park ")), stacks, "{names:?}");
    }
}
