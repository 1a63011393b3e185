//! Reads Perfetto's protocol buffers as far as the tests need it.

use std::collections::HashMap;
use std::path::Path;

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Begin,
    End,
    Instant,
}

#[derive(Debug)]
pub(super) struct Event {
    pub(super) at: u64,
    pub(super) track: u64,
    pub(super) kind: Kind,
    /// Empty for an end.
    pub(super) name: String,
    /// An arrow leads here.
    pub(super) has_arrow: bool,
}

/// One file.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// The names of the tracks, by uuid.
    tracks: HashMap<u64, String>,
    pub(super) events: Vec<Event>,
}

/// A value of a field.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl Value<'_> {
    fn number(&self) -> u64 {
        match self {
            Value::Number(number) => *number,
            Value::Bytes(_) => panic!("a number was expected"),
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Value::Number(_) => panic!("bytes were expected"),
            Value::Bytes(bytes) => bytes,
        }
    }
}

/// Takes a number of seven bits a byte.
fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a number ends too soon");
        *bytes = rest;
        number |= u64::from(first & 0x7F) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    number
}

/// Returns the fields of a message.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Value::Number(varint(&mut bytes)),
            1 => {
                let (number, rest) = bytes.split_at(8);
                bytes = rest;
                Value::Number(u64::from_le_bytes(number.try_into().unwrap()))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(value)
            }
            kind => panic!("no field of kind {kind} is written"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

impl Trace {
    pub(super) fn read(path: &Path) -> Trace {
        let bytes = std::fs::read(path).unwrap();
        let mut trace = Trace::default();
        fields(&bytes).iter().for_each(|(_, packet)| trace.add(packet.bytes()));
        trace
    }

    fn add(&mut self, packet: &[u8]) {
        let mut at = 0;
        for (field, value) in fields(packet) {
            match field {
                8 => at = value.number(),
                11 => self.add_event(at, value.bytes()),
                60 => {
                    let (mut uuid, mut name) = (0, String::new());
                    for (field, value) in fields(value.bytes()) {
                        match field {
                            1 => uuid = value.number(),
                            2 => name = value.text(),
                            5 => assert!(
                                self.tracks.contains_key(&value.number()),
                                "a track before its parent"
                            ),
                            _ => {}
                        }
                    }
                    assert!(self.tracks.insert(uuid, name).is_none(), "two tracks with one uuid");
                }
                _ => {}
            }
        }
    }

    fn add_event(&mut self, at: u64, event: &[u8]) {
        let (mut track, mut kind, mut name, mut has_arrow) = (0, Kind::Instant, String::new(), false);
        for (field, value) in fields(event) {
            match field {
                9 => kind = [Kind::Begin, Kind::End, Kind::Instant][value.number() as usize - 1],
                11 => track = value.number(),
                23 => name = value.text(),
                48 => has_arrow = true,
                _ => {}
            }
        }
        self.events.push(Event { at, track, kind, name, has_arrow });
    }

    /// Checks that each event has a track, that no track goes back in time, and that slices end.
    pub(super) fn check(&self) {
        let (mut last, mut open) = (HashMap::new(), HashMap::<u64, usize>::new());
        for event in &self.events {
            assert!(self.tracks.contains_key(&event.track), "an event without a track: {event:?}");
            let before = last.insert(event.track, event.at).unwrap_or(0);
            assert!(event.at >= before, "{event:?} after {before}");
            let open = open.entry(event.track).or_default();
            match event.kind {
                Kind::Begin => *open += 1,
                Kind::End => *open = open.checked_sub(1).expect("a slice ends that has not begun"),
                Kind::Instant => {}
            }
        }
        assert!(open.values().all(|&open| open == 0), "a slice does not end");
    }

    /// Returns how many events of a kind have such a name.
    pub(super) fn count(&self, kind: Kind, is_it: impl Fn(&str) -> bool) -> usize {
        self.events.iter().filter(|event| event.kind == kind && is_it(&event.name)).count()
    }

    /// Returns how many slices with such names begin with the file.
    pub(super) fn begun_at_start(&self, is_it: impl Fn(&str) -> bool) -> usize {
        let Some(first) = self.events.first() else { return 0 };
        let at_start = self.events.iter().take_while(|event| event.at == first.at);
        at_start.filter(|event| event.kind == Kind::Begin && is_it(&event.name)).count()
    }
}
