//! A profile in pprof's form, `profile.proto`.

use std::collections::HashMap;

use prost::Message;

use super::{INTERVAL, Profile};

/// The messages of `profile.proto`, as far as they are used. A string is an index into `string_table`.
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
        #[prost(int64, tag = "10")]
        pub(super) duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub(super) period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub(super) period: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
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

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Label {
        #[prost(int64, tag = "1")]
        pub(super) key: i64,
        #[prost(int64, tag = "2")]
        pub(super) str: i64,
        #[prost(int64, tag = "3")]
        pub(super) num: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Location {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(uint64, tag = "3")]
        pub(super) address: u64,
        #[prost(message, repeated, tag = "4")]
        pub(super) line: Vec<Line>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Line {
        #[prost(uint64, tag = "1")]
        pub(super) function_id: u64,
        #[prost(int64, tag = "2")]
        pub(super) line: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Function {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(int64, tag = "2")]
        pub(super) name: i64,
        #[prost(int64, tag = "4")]
        pub(super) filename: i64,
    }
}

pub(super) fn of(profile: &Profile) -> Vec<u8> {
    let mut tables = Tables::default();
    tables.string("");
    let [samples, count, cpu, nanos] =
        ["samples", "count", "cpu", "nanoseconds"].map(|text| tables.string(text));
    let period = INTERVAL.as_nanos() as i64;
    let cpu = proto::ValueType { r#type: cpu, unit: nanos };
    let sample = profile.counts.iter().map(|((thread, stack), &n)| {
        let stack = &profile.stacks[*stack].addresses;
        let location_id =
            stack.iter().map(|(address, functions)| tables.location(*address, functions)).collect();
        let mut label = Vec::new();
        if thread.id != 0 {
            label.push(proto::Label {
                key: tables.string("green_thread"),
                num: thread.id as i64,
                ..Default::default()
            });
            let place = thread.place.map(|place| format!("{}:{}", place.file(), place.line()));
            for (key, text) in [("name", thread.name.clone()), ("spawned_at", place)] {
                if let Some(text) = text {
                    label.push(proto::Label {
                        key: tables.string(key),
                        str: tables.string(&text),
                        ..Default::default()
                    });
                }
            }
        }
        proto::Sample { location_id, value: vec![n as i64, n as i64 * period], label }
    });
    let sample = sample.collect();
    let Tables { strings, functions, locations, .. } = tables;
    proto::Profile {
        sample_type: vec![proto::ValueType { r#type: samples, unit: count }, cpu.clone()],
        sample,
        location: locations,
        function: functions,
        string_table: strings,
        duration_nanos: profile.taken.as_nanos() as i64,
        period_type: Some(cpu),
        period,
    }
    .encode_to_vec()
}

/// The tables of a profile, and where each entry is.
#[derive(Default)]
struct Tables {
    strings: Vec<String>,
    string_of: HashMap<String, i64>,
    functions: Vec<proto::Function>,
    function_of: HashMap<(i64, i64), u64>,
    locations: Vec<proto::Location>,
    location_of: HashMap<u64, u64>,
}

impl Tables {
    fn string(&mut self, text: &str) -> i64 {
        if let Some(&at) = self.string_of.get(text) {
            return at;
        }
        let at = self.strings.len() as i64;
        self.strings.push(text.into());
        self.string_of.insert(text.into(), at);
        at
    }

    fn location(&mut self, address: u64, functions: &[super::Function]) -> u64 {
        if let Some(&id) = self.location_of.get(&address) {
            return id;
        }
        let line = |function: &super::Function| proto::Line {
            function_id: self.function(function),
            line: function.line.into(),
        };
        let line = functions.iter().map(line).collect();
        let id = self.locations.len() as u64 + 1;
        self.locations.push(proto::Location { id, address, line });
        self.location_of.insert(address, id);
        id
    }

    fn function(&mut self, function: &super::Function) -> u64 {
        let (name, filename) = (self.string(&function.name), self.string(&function.file));
        if let Some(&id) = self.function_of.get(&(name, filename)) {
            return id;
        }
        let id = self.functions.len() as u64 + 1;
        self.functions.push(proto::Function { id, name, filename });
        self.function_of.insert((name, filename), id);
        id
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Function, Stack};
    use super::*;

    #[test]
    fn each_reference_leads_to_its_entry() {
        let function = |name: &str| Function { name: name.into(), file: "a.rs".into(), line: 7 };
        let stacks = vec![
            Stack {
                addresses: vec![(16, vec![function("inlined"), function("f")]), (32, vec![function("main")])],
            },
            Stack { addresses: vec![(32, vec![function("main")])] },
        ];
        let thread = sched::Sampled { id: 5, name: Some("worker".into()), place: None };
        let counts = HashMap::from([((thread, 0), 3), ((sched::Sampled::default(), 1), 1)]);
        let profile = Profile { taken: Duration::from_secs(1), lost: 0, counts, stacks };
        let read = proto::Profile::decode(&*profile.to_pprof()).unwrap();
        assert_eq!((read.sample.len(), read.location.len(), read.function.len()), (2, 2, 3));
        let text = |at: i64| read.string_table[at as usize].as_str();
        assert_eq!(text(0), "");
        let deep = read.sample.iter().find(|sample| sample.location_id.len() == 2).unwrap();
        assert_eq!(deep.value, [3, 3 * INTERVAL.as_nanos() as i64]);
        let labels: Vec<_> =
            deep.label.iter().map(|label| (text(label.key), label.num, text(label.str))).collect();
        assert_eq!(labels, [("green_thread", 5, ""), ("name", 0, "worker")]);
        let names = |id: u64| -> Vec<&str> {
            let location = read.location.iter().find(|location| location.id == id).unwrap();
            let function = |id| read.function.iter().find(|function| function.id == id).unwrap();
            location.line.iter().map(|line| text(function(line.function_id).name)).collect()
        };
        assert_eq!(names(deep.location_id[0]), ["inlined", "f"]);
        assert_eq!(names(deep.location_id[1]), ["main"]);
        assert!(profile.folded().contains("green thread 'worker';main;f;inlined 3\n"));
    }
}
