//! pprof's format, `profile.proto`: its messages, as far as dumps and profiles use them, and the tables
//! that the other messages refer to.

use std::collections::HashMap;

pub(crate) use prost::Message;

/// A string in a message is an index into `string_table`.
pub(crate) mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub(crate) sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub(crate) sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub(crate) mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub(crate) location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub(crate) function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub(crate) string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub(crate) time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub(crate) duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub(crate) period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub(crate) period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub(crate) comment: Vec<i64>,
        #[prost(int64, tag = "14")]
        pub(crate) default_sample_type: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct ValueType {
        #[prost(int64, tag = "1")]
        pub(crate) r#type: i64,
        #[prost(int64, tag = "2")]
        pub(crate) unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub(crate) location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub(crate) value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub(crate) label: Vec<Label>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct Label {
        #[prost(int64, tag = "1")]
        pub(crate) key: i64,
        #[prost(int64, tag = "2")]
        pub(crate) str: i64,
        #[prost(int64, tag = "3")]
        pub(crate) num: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct Mapping {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(int64, tag = "5")]
        pub(crate) filename: i64,
        #[prost(bool, tag = "7")]
        pub(crate) has_functions: bool,
        #[prost(bool, tag = "8")]
        pub(crate) has_filenames: bool,
        #[prost(bool, tag = "9")]
        pub(crate) has_line_numbers: bool,
        #[prost(bool, tag = "10")]
        pub(crate) has_inline_frames: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Location {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(uint64, tag = "2")]
        pub(crate) mapping_id: u64,
        #[prost(uint64, tag = "3")]
        pub(crate) address: u64,
        #[prost(message, repeated, tag = "4")]
        pub(crate) line: Vec<Line>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct Line {
        #[prost(uint64, tag = "1")]
        pub(crate) function_id: u64,
        #[prost(int64, tag = "2")]
        pub(crate) line: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct Function {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(int64, tag = "2")]
        pub(crate) name: i64,
        #[prost(int64, tag = "3")]
        pub(crate) system_name: i64,
        #[prost(int64, tag = "4")]
        pub(crate) filename: i64,
    }
}

/// The id of the one mapping, which all locations have.
const PROGRAM: u64 = 1;

/// A profile in the making. Its ids are places in its lists, from 1.
pub(crate) struct Tables {
    pub(crate) profile: proto::Profile,
    strings: HashMap<String, i64>,
    /// The functions by name and file.
    functions: HashMap<(i64, i64), u64>,
}

impl Tables {
    pub(crate) fn new() -> Tables {
        let profile = proto::Profile::default();
        let mut this = Tables { profile, strings: HashMap::new(), functions: HashMap::new() };
        // The first string must be empty.
        this.string("");
        let filename = this.string(&std::env::current_exe().unwrap_or_default().to_string_lossy());
        // pprof would look up the names anew where it is given the program, and take each address for one of
        // the file.
        this.profile.mapping.push(proto::Mapping {
            id: PROGRAM,
            filename,
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        });
        this
    }

    /// Returns a type of value, and what it is counted in.
    pub(crate) fn value_type(&mut self, of: &str, unit: &str) -> proto::ValueType {
        proto::ValueType { r#type: self.string(of), unit: self.string(unit) }
    }

    /// Returns the index of a string, which it adds if it is new.
    pub(crate) fn string(&mut self, text: &str) -> i64 {
        if let Some(&at) = self.strings.get(text) {
            return at;
        }
        let at = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), at);
        at
    }

    /// Returns a label of which the value is a text.
    pub(crate) fn label(&mut self, key: &str, text: &str) -> proto::Label {
        proto::Label { key: self.string(key), str: self.string(text), num: 0 }
    }

    /// Returns a line of a function, which it adds if it is new.
    pub(crate) fn line(&mut self, function: &str, file: &str, line: u32) -> proto::Line {
        let key @ (name, filename) = (self.string(function), self.string(file));
        let functions = &mut self.profile.function;
        let function_id = *self.functions.entry(key).or_insert_with(|| {
            let id = functions.len() as u64 + 1;
            functions.push(proto::Function { id, name, system_name: name, filename });
            id
        });
        proto::Line { function_id, line: line.into() }
    }

    /// Adds a location: the functions at an address, or at 0 if the address is not known; the innermost
    /// first. Returns its id.
    pub(crate) fn add_location(&mut self, address: u64, line: Vec<proto::Line>) -> u64 {
        let id = self.profile.location.len() as u64 + 1;
        self.profile.location.push(proto::Location { id, mapping_id: PROGRAM, address, line });
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `go tool pprof PROGRAM PROFILE` looks up names that the mapping of a location does not have.
    #[test]
    fn the_mapping_of_each_location_has_names() {
        let mut tables = Tables::new();
        let line = tables.line("main", "main.rs", 3);
        tables.add_location(0x1000, vec![line]);
        let proto::Profile { mapping, location, string_table, .. } = tables.profile;
        assert_eq!((mapping.len(), location[0].mapping_id), (1, mapping[0].id));
        assert!(mapping[0].has_functions && mapping[0].has_filenames && mapping[0].has_line_numbers);
        let program = std::env::current_exe().unwrap();
        assert_eq!(string_table[mapping[0].filename as usize], program.to_string_lossy());
    }
}
