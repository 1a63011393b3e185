//! A snapshot as a profile in pprof's format: how many green threads have each stack, and how long these have
//! waited in all.

pub(crate) mod format;

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use super::groups::{self, Key};
use super::waits::Waits;
use super::{Frame, GreenThread, Place, Snapshot};
use format::{Message, Tables, proto};

impl Snapshot {
    /// Returns the snapshot as a profile in pprof's format, which `go tool pprof` and Perfetto's and
    /// Speedscope's pages read. It has a sample for each group of [`grouped`](Snapshot::grouped), with two
    /// values: the number of green threads, and how long they had waited in all. The innermost frame says
    /// what they did, as "waits for a mutex". The outermost one is the place of the spawn.
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
        profile.tables.profile.encode_to_vec()
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

impl Waits {
    /// Returns the profile in pprof's format, with the values of Go's block profile: `contentions/count`, the
    /// waits that were seen, and `delay/nanoseconds`. Not compressed. Needs the feature `dump-pprof`.
    ///
    /// The innermost frame says what the waits are for, and the outermost one is the place of the spawn. The
    /// samples have the labels of the program.
    pub fn to_pprof(&self) -> Vec<u8> {
        let (mut tables, mut locations) = (Tables::new(), HashMap::new());
        let count = tables.value_type("contentions", "count");
        let delay = tables.value_type("delay", "nanoseconds");
        for (waiting, sum) in &self.sums {
            let frames =
                shown_frames(format!("waits for {}", waiting.reason), &waiting.stack, waiting.spawned_at);
            let location_id = frames.map(|frame| location(&mut tables, &mut locations, frame)).collect();
            let label = waiting.labels.iter().map(|(key, value)| tables.label(key, value)).collect();
            let value = vec![i64::try_from(sum.waits).unwrap_or(i64::MAX), nanos(sum.time)];
            tables.profile.sample.push(proto::Sample { location_id, value, label });
        }
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        (tables.profile.time_nanos, tables.profile.duration_nanos) = (nanos(now), nanos(self.taken));
        tables.profile.sample_type = vec![count, delay];
        (tables.profile.period_type, tables.profile.period) = (Some(count), 1);
        tables.profile.encode_to_vec()
    }
}

/// Returns the frames of a sample, the innermost first: what is done there, the stack, and the spawn.
fn shown_frames(does: String, stack: &[Frame], place: Option<Place>) -> impl Iterator<Item = Frame> {
    let named = |function: String, file, line| Frame { function, file, line };
    let spawned = place.map(|place| named("spawned".into(), Some(place.file.into()), Some(place.line)));
    std::iter::once(named(does, None, None)).chain(stack.to_vec()).chain(spawned)
}

/// A profile in the making.
struct Builder {
    tables: Tables,
    /// The locations by function, file and line.
    locations: HashMap<Frame, u64>,
}

impl Builder {
    fn new() -> Builder {
        let mut tables = Tables::new();
        let count = tables.value_type("green_threads", "count");
        let waited = tables.value_type("waited", "nanoseconds");
        tables.profile.sample_type = vec![count, waited];
        (tables.profile.period_type, tables.profile.period) = (Some(count), 1);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        tables.profile.time_nanos = nanos(now);
        Builder { tables, locations: HashMap::new() }
    }

    fn add(&mut self, snapshot: &Snapshot, key: Key<'_>, threads: &[&GreenThread]) {
        let does = match key.reason {
            Some(reason) => format!("{} for {reason}", key.state),
            None => key.state.to_string(),
        };
        let stack = key.stack.and_then(|stack| snapshot.stacks.get(stack)).map_or(&[][..], Vec::as_slice);
        let frames = shown_frames(does.clone(), stack, key.place);
        let location_id =
            frames.map(|frame| location(&mut self.tables, &mut self.locations, frame)).collect();
        let waited = threads.iter().filter_map(|thread| Some(thread.wait.as_ref()?.waited)).sum();
        let mut label = vec![self.tables.label("does", &does)];
        label.extend(key.labels.iter().map(|(key, value)| self.tables.label(key, value)));
        let value = vec![i64::try_from(threads.len()).unwrap_or(i64::MAX), nanos(waited)];
        self.tables.profile.sample.push(proto::Sample { location_id, value, label });
    }
}

/// Returns the location of a frame, which it adds if it is new.
pub(crate) fn location(tables: &mut Tables, locations: &mut HashMap<Frame, u64>, frame: Frame) -> u64 {
    if let Some(&id) = locations.get(&frame) {
        return id;
    }
    let file = frame.file.as_deref().unwrap_or_default();
    let line = tables.line(&frame.function, file, frame.line.unwrap_or_default());
    let id = tables.add_location(0, vec![line]);
    locations.insert(frame, id);
    id
}

pub(crate) fn nanos(time: Duration) -> i64 {
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
        let runtime = runtime::Builder::new().procs(2).build().unwrap();
        let (samples, place) = runtime.block_on(|| {
            let place = line!() + 1;
            let parked: Vec<_> = (0..7).map(|_| runtime::spawn(runtime::thread::park)).collect();
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
                runtime::sleep(Duration::from_millis(1));
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
