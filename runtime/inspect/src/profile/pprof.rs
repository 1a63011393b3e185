//! A profile in pprof's form, `profile.proto`.

use std::collections::HashMap;

use super::{Function, INTERVAL, Profile};
use crate::dump::pprof::format::{Message, Tables, proto};

pub(super) fn of(profile: &Profile) -> Vec<u8> {
    let (mut tables, mut locations) = (Tables::new(), HashMap::new());
    let samples = tables.value_type("samples", "count");
    let cpu = tables.value_type("cpu", "nanoseconds");
    let period = INTERVAL.as_nanos() as i64;
    let sample = profile.counts.iter().map(|((thread, stack), &n)| {
        let stack = &profile.stacks[*stack].addresses;
        let mut location = |&(address, ref functions): &(u64, Vec<Function>)| {
            *locations.entry(address).or_insert_with(|| {
                let line = functions.iter().map(|of| tables.line(&of.name, &of.file, of.line)).collect();
                tables.add_location(address, line)
            })
        };
        let location_id = stack.iter().map(&mut location).collect();
        let mut label = Vec::new();
        if thread.id != 0 {
            label.push(proto::Label {
                key: tables.string("green_thread"),
                num: thread.id as i64,
                ..Default::default()
            });
            let place = thread.place.map(|place| format!("{}:{}", place.file(), place.line()));
            for (key, text) in [
                ("name", thread.name.as_deref().map(|name| name.escape_debug().to_string())),
                ("spawned_at", place),
            ] {
                label.extend(text.map(|text| tables.label(key, &text)));
            }
            let users = thread.labels.iter().flat_map(|labels| labels.iter());
            label.extend(users.map(|(key, value)| tables.label(key, value)));
        }
        proto::Sample { location_id, value: vec![n as i64, n as i64 * period], label }
    });
    let sample = sample.collect();
    proto::Profile {
        sample_type: vec![samples, cpu],
        sample,
        duration_nanos: profile.taken.as_nanos() as i64,
        period_type: Some(cpu),
        period,
        ..tables.profile
    }
    .encode_to_vec()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use sched::Labels;

    use super::super::Stack;
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
        let thread = sched::interrupted::Thread {
            id: 5,
            name: Some("worker\n".into()),
            place: None,
            labels: Some(Arc::new(Labels::nested(None, &[("route", "/x")]))),
        };
        let counts = HashMap::from([((thread, 0), 3), ((sched::interrupted::Thread::default(), 1), 1)]);
        let profile = Profile { taken: Duration::from_secs(1), lost: 0, counts, stacks };
        let read = proto::Profile::decode(&*profile.to_pprof()).unwrap();
        assert_eq!((read.sample.len(), read.location.len(), read.function.len()), (2, 2, 3));
        let text = |at: i64| read.string_table[at as usize].as_str();
        assert_eq!(text(0), "");
        let deep = read.sample.iter().find(|sample| sample.location_id.len() == 2).unwrap();
        assert_eq!(deep.value, [3, 3 * INTERVAL.as_nanos() as i64]);
        let labels: Vec<_> =
            deep.label.iter().map(|label| (text(label.key), label.num, text(label.str))).collect();
        assert_eq!(labels, [("green_thread", 5, ""), ("name", 0, "worker\\n"), ("route", 0, "/x")]);
        let names = |id: u64| -> Vec<&str> {
            let location = read.location.iter().find(|location| location.id == id).unwrap();
            let function = |id| read.function.iter().find(|function| function.id == id).unwrap();
            location.line.iter().map(|line| text(function(line.function_id).name)).collect()
        };
        assert_eq!(names(deep.location_id[0]), ["inlined", "f"]);
        assert_eq!(names(deep.location_id[1]), ["main"]);
        assert!(profile.folded().contains("green thread 'worker\\n' route=/x;main;f;inlined 3\n"));
    }
}
