//! The place of `near.rs` on systems other than Linux: all sources are registered with the
//! shared poller.

use mio::Token;

use crate::arena::At;
use crate::sys::selector::{Event, Poll, Registry};

/// None.
pub(crate) struct Nears;

/// There is none.
pub(crate) enum Near {}

impl Nears {
    pub(crate) fn new() -> Nears {
        Nears
    }

    pub(crate) fn get(&self, _place: usize) -> Option<&Near> {
        None
    }

    pub(crate) fn note_processor(&self, _place: usize, _processor: u32) {}

    pub(crate) fn place_of(&self, _processor: u32) -> Option<usize> {
        None
    }

    pub(crate) fn is_at(&self, _place: usize, _processor: u32) -> bool {
        false
    }

    pub(crate) fn sources(&self, _place: usize) -> usize {
        0
    }

    pub(crate) fn change(
        &self,
        _at: &At,
        _fd: i32,
        _place: Option<usize>,
        _token: Token,
        _shared: (&Registry, i32),
        _join: impl FnOnce(usize),
    ) -> bool {
        false
    }

    pub(crate) fn leave(&self, _at: &At, _fd: i32) -> bool {
        false
    }

    pub(crate) fn forget(&self, _at: &At) -> Option<&Near> {
        None
    }
}

impl Near {
    pub(crate) fn polls_at(&self, _now: u64) {
        match *self {}
    }

    pub(crate) fn polled_before(&self, _time: u64) -> bool {
        match *self {}
    }

    pub(crate) fn count_poll(&self, _woken: usize) {
        match *self {}
    }

    pub(crate) fn counts(&self) -> [u64; 2] {
        match *self {}
    }

    pub(crate) fn reset_counts(&self) {
        match *self {}
    }

    pub(crate) fn has_sources(&self) -> bool {
        match *self {}
    }

    pub(crate) fn poll(&self, _deliver: impl FnOnce(&mut dyn Iterator<Item = &Event>)) -> bool {
        match *self {}
    }
}

pub(crate) fn place_of(_token: Token) -> Option<usize> {
    None
}

pub(crate) fn descriptor(_poll: &Poll) -> i32 {
    -1
}

/// Sources stay where they are.
pub(crate) const MOVES: bool = false;

pub(crate) fn incoming_processor(_fd: i32) -> Option<u32> {
    None
}
