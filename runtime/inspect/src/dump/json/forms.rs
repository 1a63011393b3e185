//! The forms of all types of a dump in JSON.
//!
//! A form names each field of its type: the written ones in their order, and after `;` the others. So a new
//! field that has no form does not compile.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::panic::Location;
use std::time::Duration;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::dump::deadlock::{Deadlock, DeadlockKind, DeadlockMember};
use crate::dump::snapshot::{GreenThread, Object, Reason, Snapshot, State, Wait};
use crate::metrics::HogPlace;
use crate::stacks::frame::Frame;
use crate::stacks::place::Place;

/// A field that is written in another form: its name in JSON, and its value there.
macro_rules! field {
    ($object:ident, $field:ident) => {
        $object.serialize_field(stringify!($field), $field)?
    };
    ($object:ident, $field:ident, $name:literal $form:ident) => {
        $object.serialize_field($name, &$form($field))?
    };
}

/// Objects, each with its fields.
macro_rules! objects {
    ($($type:ident { $($field:ident $(as $name:literal by $form:ident)?),*; $($hidden:ident),* })*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $type { $($field,)* $($hidden: _,)* } = self;
                let count = [$(stringify!($field)),*].len();
                let mut object = serializer.serialize_struct(stringify!($type), count)?;
                $(field!(object, $field $(, $name $form)?);)*
                object.end()
            }
        }
    )*};
}

objects! {
    Snapshot { green_threads, stacks, deadlocks, hogs; plain_threads }
    GreenThread {
        id, name, state, wait, spawned_at, labels as "labels" by map_of, parent, scope, future, stack, spawn_stack;
        shares, line
    }
    Wait { reason, waited as "waited_ms" by ms, due_in as "due_in_ms" by ms_if_any, may_end, number, object; }
    Deadlock { certain, kind, members, behind; leaked }
    DeadlockMember { id, name, waits_for, number, stack; }
    HogPlace { place as "place" by place_of, computing, blocked, away as "away_ms" by ms, stack; }
    Place { file, line, column; }
    Frame { function, file, line; }
}

/// The variants of `Object`. The field `kind` has the name of the variant.
macro_rules! variants {
    ($($variant:ident $kind:literal { $($field:ident),* })*) => {
        impl Serialize for Object {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Object::$variant { $($field),* } => {
                        let count = [$(stringify!($field)),*].len() + 1;
                        let mut object = serializer.serialize_struct("Object", count)?;
                        object.serialize_field("kind", $kind)?;
                        $(field!(object, $field);)*
                        object.end()
                    })*
                }
            }
        }
    };
}

variants! {
    Mutex "mutex" { address, locked, holder }
    RwLock "rw_lock" { address, readers, writer, holder, waiting_readers, to_write }
    GreenThread "green_thread" { id }
    Scope "scope" { green_threads }
    Channel "channel" { address, senders, receivers, messages, capacity }
    Select "select" { cases }
    Descriptor "descriptor" { fd, local, peer, to_write }
}

/// Enums without fields: the name of the variant in snake case.
macro_rules! names {
    ($($type:ident)*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&snake(self))
            }
        }
    )*};
}

names! { State Reason DeadlockKind }

/// Returns the name of a variant in snake case.
fn snake(variant: &impl Debug) -> String {
    let mut name = String::new();
    for letter in format!("{variant:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Returns a duration as a whole number of ms.
fn ms(time: &Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn ms_if_any(time: &Option<Duration>) -> Option<u64> {
    time.as_ref().map(ms)
}

/// Returns pairs as an object.
fn map_of(pairs: &[(String, String)]) -> BTreeMap<&str, &str> {
    pairs.iter().map(|(key, value)| (&**key, &**value)).collect()
}

/// Returns a place with its file, line and column.
fn place_of(place: &Option<&'static Location<'static>>) -> Option<Place> {
    place.map(Place::of)
}
