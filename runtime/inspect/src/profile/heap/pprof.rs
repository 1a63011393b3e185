//! A heap profile in pprof's form, `profile.proto`.

use std::collections::HashMap;
use std::time::SystemTime;

use super::Heap;
use crate::dump::pprof::format::{Message, Tables, proto};
use crate::dump::pprof::{location, nanos};

impl Heap {
    /// Returns the profile in the form that `go tool pprof`, speedscope and others read: `profile.proto`, not
    /// compressed. It has the four values of Go's: `alloc_objects`, `alloc_space`, `inuse_objects` and
    /// `inuse_space`. Samples have the labels `spawned_at`, and those of the program. A comment says how many
    /// samples were lost, if any were.
    pub fn to_pprof(&self) -> Vec<u8> {
        encoded(self)
    }
}

fn encoded(heap: &Heap) -> Vec<u8> {
    let (mut tables, mut locations) = (Tables::new(), HashMap::new());
    let types = [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ];
    let sample_type = types.map(|(of, unit)| tables.value_type(of, unit)).to_vec();
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    for site in &heap.sites {
        let frames = site.stack.iter().cloned();
        let location_id = frames.map(|frame| location(&mut tables, &mut locations, frame)).collect();
        let place = site.spawned_at.map(|place| format!("{}:{}", place.file, place.line));
        let mut label: Vec<_> = place.map(|place| tables.label("spawned_at", &place)).into_iter().collect();
        label.extend(site.labels.iter().map(|(key, value)| tables.label(key, value)));
        let (all, used) = (site.allocated, site.in_use);
        let value = [all.objects, all.bytes, used.objects, used.bytes].map(number).to_vec();
        tables.profile.sample.push(proto::Sample { location_id, value, label });
    }
    let comment = heap.lost_in_words().map(|text| tables.string(&text)).into_iter().collect();
    let (space, default) = (tables.value_type("space", "bytes"), tables.string("inuse_space"));
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    proto::Profile {
        sample_type,
        time_nanos: nanos(now),
        period_type: Some(space),
        period: number(heap.rate as u64),
        comment,
        default_sample_type: default,
        ..tables.profile
    }
    .encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::super::{HeapSite, HeapSum};
    use super::*;
    use crate::dump::{Frame, Place};

    #[test]
    fn the_profile_has_gos_four_values_and_says_what_is_lost() {
        let frame = |function: &str, line| Frame {
            function: function.into(),
            file: Some("a.rs".into()),
            line: Some(line),
        };
        let sum = |objects, bytes| HeapSum { objects, bytes };
        let sites = vec![
            HeapSite {
                spawned_at: Some(Place { file: "b.rs", line: 9, column: 1 }),
                labels: vec![("route".into(), "/x".into())],
                stack: vec![frame("leaf", 3), frame("main", 7)],
                allocated: sum(5, 500),
                in_use: sum(2, 200),
            },
            HeapSite {
                spawned_at: None,
                labels: Vec::new(),
                stack: vec![frame("main", 7)],
                allocated: sum(1, 8),
                in_use: sum(0, 0),
            },
        ];
        let heap = Heap { rate: 4096, lost: 3, sites };
        let read = proto::Profile::decode(&*heap.to_pprof()).unwrap();
        let text = |at: i64| read.string_table[at as usize].as_str();
        let types: Vec<_> = read.sample_type.iter().map(|of| (text(of.r#type), text(of.unit))).collect();
        let is = [
            ("alloc_objects", "count"),
            ("alloc_space", "bytes"),
            ("inuse_objects", "count"),
            ("inuse_space", "bytes"),
        ];
        assert_eq!(types, is);
        assert_eq!((text(read.default_sample_type), read.period), ("inuse_space", 4096));
        let period = read.period_type.unwrap();
        assert_eq!((text(period.r#type), text(period.unit)), ("space", "bytes"));
        let comments: Vec<_> = read.comment.iter().map(|&at| text(at)).collect();
        assert_eq!(comments, ["3 samples lost: the table was full"]);
        let values: Vec<_> = read.sample.iter().map(|sample| &*sample.value).collect();
        assert_eq!(values, [&[5, 500, 2, 200][..], &[1, 8, 0, 0]]);
        let labels: Vec<_> =
            read.sample[0].label.iter().map(|label| (text(label.key), text(label.str))).collect();
        assert_eq!(labels, [("spawned_at", "b.rs:9"), ("route", "/x")]);
        let names = |ids: &[u64]| -> Vec<_> {
            let line = |id: &u64| read.location.iter().find(|location| location.id == *id).unwrap().line[0];
            let named = |line: proto::Line| {
                let function = read.function.iter().find(|function| function.id == line.function_id).unwrap();
                (text(function.name), text(function.filename), line.line)
            };
            ids.iter().map(line).map(named).collect()
        };
        assert_eq!(names(&read.sample[0].location_id), [("leaf", "a.rs", 3), ("main", "a.rs", 7)]);
        assert_eq!(names(&read.sample[1].location_id), [("main", "a.rs", 7)]);
        assert_eq!(
            heap.folded(),
            "green threads spawned at b.rs:9 route=/x;main;leaf 200\n3 samples lost: the table was full 0\n"
        );
        let whole = Heap { lost: 0, ..heap };
        assert!(proto::Profile::decode(&*whole.to_pprof()).unwrap().comment.is_empty());
        assert_eq!((whole.in_use(), whole.allocated()), (sum(2, 200), sum(6, 508)));
    }
}
