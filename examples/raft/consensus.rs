//! Raft: takes messages, requests and the time, and leaves what is to be written to disk and then sent. It
//! does no input or output.

use std::collections::BTreeSet;
use std::mem;
use std::time::{Duration, Instant};

use super::log::Log;
use super::message::{Command, Entry, Id, Message};
use super::progress::{Leading, Progress};
use super::storage::Record;

/// How often a leader informs the others that it lives.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(50);
/// After how long without a leader a node becomes a candidate: this, and a random time of at most as long
/// again.
pub(crate) const ELECTION: Duration = Duration::from_millis(300);
/// After how long entries are sent again that were not answered.
const RESEND: Duration = Duration::from_millis(150);

#[derive(Debug)]
enum Role {
    Follower,
    /// With the nodes that have voted for this one.
    Candidate(BTreeSet<Id>),
    Leader(Leading),
}

/// The algorithm's state on one node.
#[derive(Debug)]
pub(crate) struct Raft {
    id: Id,
    /// The other nodes.
    peers: Vec<Id>,
    term: u64,
    voted_for: Option<Id>,
    pub(crate) log: Log,
    committed: u64,
    role: Role,
    leader: Option<Id>,
    /// When a follower or a candidate begins an election.
    election: Instant,
    /// Returns a number from 0 to 1.
    random: fn() -> f64,
    output: Output,
}

/// What a step leaves. The records must be on disk before a message is sent, and before `synced` is called.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) records: Vec<Record>,
    /// To whom, the sender's term at that moment, and what.
    pub(crate) messages: Vec<(Id, u64, Message)>,
}

/// A read that a leader may answer once `round` is confirmed and `index` applied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Read {
    pub(crate) round: u64,
    pub(crate) index: u64,
}

/// What a node has on its disk when it starts.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) term: u64,
    pub(crate) voted_for: Option<Id>,
    pub(crate) log: Log,
}

impl Raft {
    pub(crate) fn new(id: Id, nodes: Id, now: Instant, random: fn() -> f64, recovered: Recovered) -> Raft {
        let Recovered { term, voted_for, log } = recovered;
        let mut raft = Raft {
            id,
            peers: (1..=nodes).filter(|&other| other != id).collect(),
            term,
            voted_for,
            log,
            committed: 0,
            role: Role::Follower,
            leader: None,
            election: now,
            random,
            output: Output::default(),
        };
        raft.put_off_election(now);
        raft
    }

    pub(crate) fn term(&self) -> u64 {
        self.term
    }

    pub(crate) fn leader(&self) -> Option<Id> {
        self.leader
    }

    pub(crate) fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    pub(crate) fn committed(&self) -> u64 {
        self.committed
    }

    /// Returns when `tick` has something to do.
    pub(crate) fn deadline(&self) -> Instant {
        match &self.role {
            Role::Leader(leading) => leading.next_round,
            Role::Follower | Role::Candidate(_) => self.election,
        }
    }

    /// Does what is due at this time, and sends what was proposed since the last tick.
    pub(crate) fn tick(&mut self, now: Instant) {
        match &self.role {
            Role::Leader(leading) => {
                let heard = leading.majority(now, |peer| peer.heard);
                if now.saturating_duration_since(heard) > 2 * ELECTION {
                    // A leader without a majority serves no client: its clients look for another one.
                    self.follow(self.term, None, now);
                } else if leading.wants_round || now >= leading.next_round {
                    self.begin_round(now);
                } else {
                    self.peers.clone().into_iter().for_each(|peer| self.send_entries(peer, now));
                }
            }
            Role::Follower | Role::Candidate(_) if now >= self.election => self.campaign(now),
            Role::Follower | Role::Candidate(_) => {}
        }
    }

    /// Takes what is to be written and sent.
    pub(crate) fn take_output(&mut self) -> Output {
        mem::take(&mut self.output)
    }

    /// Notes that all records that were taken are on disk.
    pub(crate) fn synced(&mut self) {
        let last = self.log.last_index();
        if let Role::Leader(leading) = &mut self.role {
            leading.synced = last;
            self.commit();
        }
    }

    /// Appends a command to the leader's log. Returns its index, or `None` on a node that is not the leader.
    pub(crate) fn propose(&mut self, command: Command) -> Option<u64> {
        self.is_leader().then(|| self.append(command))
    }

    /// Returns what a read has to wait for, or `None` on a node that is not the leader. (Raft, section 8)
    pub(crate) fn read(&mut self) -> Option<Read> {
        let Role::Leader(leading) = &mut self.role else { return None };
        if broken!("read_unconfirmed") {
            return Some(Read { round: 0, index: self.committed });
        }
        // Another leader may have been elected before now. A majority that answers a later round shows that
        // there was none.
        leading.wants_round = true;
        // A new leader does not know what its predecessors have committed, before it commits an entry of its
        // own.
        Some(Read { round: leading.round + 1, index: self.committed.max(leading.start) })
    }

    /// Returns the last round that a majority has answered, of a leader.
    pub(crate) fn confirmed_round(&self) -> Option<u64> {
        let Role::Leader(leading) = &self.role else { return None };
        Some(leading.majority(leading.round, |peer| peer.round))
    }

    /// Takes a message from another node.
    pub(crate) fn step(&mut self, from: Id, term: u64, message: Message, now: Instant) {
        if term > self.term {
            self.follow(term, None, now);
        }
        let is_old = term < self.term;
        match message {
            // No other answer will do: its round must not count for a leader that the sender has become
            // since.
            Message::AskVote { .. } | Message::Append { .. } if is_old => self.send(from, Message::NewerTerm),
            _ if is_old => {}
            Message::NewerTerm => {}
            Message::AskVote { last_index, last_term } => {
                let granted = self.grant_vote(from, (last_term, last_index), now);
                self.send(from, Message::Vote { granted });
            }
            Message::Append { prev_index, prev_term, entries, commit, round } => {
                self.follow(term, Some(from), now);
                let agreed = self.accept(prev_index, prev_term, entries, commit);
                self.send(from, Message::Appended { round, agreed });
            }
            Message::Vote { granted } => self.count_vote(from, granted, now),
            Message::Appended { round, agreed } => self.advance(from, round, agreed, now),
        }
    }

    fn follow(&mut self, term: u64, leader: Option<Id>, now: Instant) {
        if term > self.term {
            (self.term, self.voted_for) = (term, None);
            self.keep_vote();
        }
        if self.is_leader() || leader.is_some() {
            self.put_off_election(now);
        }
        (self.role, self.leader) = (Role::Follower, leader);
    }

    fn put_off_election(&mut self, now: Instant) {
        self.election = now + ELECTION + ELECTION.mul_f64((self.random)());
    }

    fn keep_vote(&mut self) {
        if !broken!("vote_not_kept") {
            self.output.records.push(Record::Vote { term: self.term, voted_for: self.voted_for });
        }
    }

    /// Begins an election. (Section 5.2)
    fn campaign(&mut self, now: Instant) {
        (self.term, self.voted_for, self.leader) = (self.term + 1, Some(self.id), None);
        self.keep_vote();
        self.put_off_election(now);
        self.role = Role::Candidate(BTreeSet::new());
        let ask = Message::AskVote { last_index: self.log.last_index(), last_term: self.log.last_term() };
        for peer in self.peers.clone() {
            self.send(peer, ask.clone());
        }
        self.count_vote(self.id, true, now);
    }

    /// Gives the vote of this term to the first that asks with a log that has all that this one has. (Section
    /// 5.4.1)
    fn grant_vote(&mut self, from: Id, last: (u64, u64), now: Instant) -> bool {
        let has_all = last >= (self.log.last_term(), self.log.last_index());
        let granted = (has_all || broken!("old_log_elected")) && self.voted_for.is_none_or(|id| id == from);
        if granted && self.voted_for.is_none() {
            self.voted_for = Some(from);
            self.keep_vote();
        }
        if granted {
            self.put_off_election(now);
        }
        granted
    }

    fn count_vote(&mut self, from: Id, granted: bool, now: Instant) {
        let Role::Candidate(votes) = &mut self.role else { return };
        if granted {
            votes.insert(from);
        }
        if votes.len() > self.peers.len().div_ceil(2) {
            let leading = Leading::new(&self.peers, self.log.last_index(), now);
            (self.role, self.leader) = (Role::Leader(leading), Some(self.id));
            self.append(Command::Nothing);
            self.begin_round(now);
        }
    }

    fn append(&mut self, command: Command) -> u64 {
        let index = self.log.last_index() + 1;
        self.put(index, Entry { term: self.term, command });
        index
    }

    fn put(&mut self, index: u64, entry: Entry) {
        assert!(index > self.committed, "a committed entry is never replaced");
        self.output.records.push(Record::Entry { index, entry: entry.clone() });
        self.log.put(index, entry);
    }

    /// Takes a leader's entries. Returns up to which index the logs agree, or the index that the leader is to
    /// try next. (Section 5.3)
    fn accept(&mut self, prev: u64, prev_term: u64, entries: Vec<Entry>, commit: u64) -> Result<u64, u64> {
        match self.log.term(prev) {
            None => return Err(self.log.last_index() + 1),
            // All entries of the wrong term are skipped at once.
            Some(term) if term != prev_term => return Err(self.log.first_of_term(prev)),
            Some(_) => {}
        }
        let agreed = prev + entries.len() as u64;
        for (index, entry) in (prev + 1..).zip(entries) {
            // A message that arrives late has entries that the log has. They must not remove what follows
            // them.
            if self.log.term(index) != Some(entry.term) {
                self.put(index, entry);
            }
        }
        self.committed = self.committed.max(commit.min(agreed));
        Ok(agreed)
    }

    /// Takes the answer to a round.
    fn advance(&mut self, from: Id, round: u64, agreed: Result<u64, u64>, now: Instant) {
        let Role::Leader(leading) = &mut self.role else { return };
        let Some(peer) = leading.peers.get_mut(&from) else { return };
        (peer.heard, peer.round) = (now, peer.round.max(round));
        match agreed {
            Ok(index) => peer.agreed = peer.agreed.max(index),
            Err(next) => (peer.next, peer.sent) = (next, None),
        }
        peer.sent = peer.sent.filter(|&(_, last)| last > peer.agreed);
        peer.next = peer.next.clamp(peer.agreed + 1, self.log.last_index() + 1);
        self.commit();
        self.send_entries(from, now);
    }

    /// Commits what a majority has on disk. An entry of an earlier term is committed only by a later one of
    /// this term, because another leader may still replace it. (Section 5.4.2)
    fn commit(&mut self) {
        let Role::Leader(leading) = &self.role else { return };
        let on_majority = leading.majority(leading.synced, |peer| peer.agreed);
        if self.log.term(on_majority) == Some(self.term) {
            self.committed = self.committed.max(on_majority);
        }
    }

    /// Informs all nodes that this one leads.
    fn begin_round(&mut self, now: Instant) {
        let Role::Leader(leading) = &mut self.role else { return };
        leading.round += 1;
        leading.wants_round = false;
        leading.next_round = now + HEARTBEAT;
        for peer in self.peers.clone() {
            self.send_round(peer, now);
        }
    }

    /// Sends the round with the entries that the node lacks; without entries if earlier ones are on their
    /// way.
    fn send_round(&mut self, to: Id, now: Instant) {
        let Role::Leader(leading) = &mut self.role else { return };
        let (round, Some(peer)) = (leading.round, leading.peers.get_mut(&to)) else { return };
        let waits = peer.sent.is_some_and(|(sent, _)| now.saturating_duration_since(sent) < RESEND);
        let entries = if waits { Vec::new() } else { self.log.some_from(peer.next) };
        let prev_index = peer.next - 1;
        if !entries.is_empty() {
            peer.sent = Some((now, prev_index + entries.len() as u64));
        }
        let prev_term = self.log.term(prev_index).unwrap_or(0);
        let append = Message::Append { prev_index, prev_term, entries, commit: self.committed, round };
        self.send(to, append);
    }

    /// Sends entries that the node lacks, if none are on their way.
    fn send_entries(&mut self, to: Id, now: Instant) {
        let Role::Leader(leading) = &self.role else { return };
        let lacks = |peer: &Progress| peer.sent.is_none() && peer.next <= self.log.last_index();
        if leading.peers.get(&to).is_some_and(lacks) {
            self.send_round(to, now);
        }
    }

    fn send(&mut self, to: Id, message: Message) {
        self.output.messages.push((to, self.term, message));
    }
}
