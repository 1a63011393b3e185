//! An io_uring of one thread, tuned for sockets: completions are processed when this thread waits
//! (`DEFER_TASKRUN`). Each socket has one receive that goes on (multishot), into buffers that the kernel
//! picks. A send makes no completion unless it fails.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, Fixed};
use io_uring::{IoUring, cqueue, opcode, squeue};

/// Entries of the submission queue; the completion queue has eight times as many.
const ENTRIES: u32 = 512;
/// The buffers of all receives, a power of two, and the size of each.
const BUFFERS: u16 = 512;
const BUFFER: usize = 2048;
/// The number of that group of buffers.
const GROUP: u16 = 0;
/// The word of a send, which has no completion unless it fails.
const SEND: u64 = u64::MAX;

pub(crate) struct Ring {
    ring: IoUring,
    buffers: Buffers,
}

/// The end of a receive, or bytes of one that goes on.
pub(crate) struct Event {
    pub(crate) word: u64,
    /// How many bytes have come: none at the end of the connection.
    pub(crate) len: usize,
    buffer: Option<u16>,
    /// The receive goes on. If not, it has to be started again, except at the end of the connection.
    pub(crate) more: bool,
    /// All buffers were in use.
    pub(crate) starved: bool,
}

impl Ring {
    pub(crate) fn new() -> io::Result<Ring> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(8 * ENTRIES)
            .build(ENTRIES)?;
        let buffers = Buffers::new(&ring)?;
        Ok(Ring { ring, buffers })
    }

    /// Registers the sockets of this ring. Each call below names a socket by its place there.
    pub(crate) fn register(&self, sockets: &[RawFd]) -> io::Result<()> {
        self.ring.submitter().register_files(sockets)
    }

    /// Starts to receive. Each event has `word`.
    pub(crate) fn receive(&mut self, socket: u32, word: u64) -> io::Result<()> {
        self.push(&opcode::RecvMulti::new(Fixed(socket), GROUP).build().user_data(word))
    }

    /// Sends all bytes.
    ///
    /// # Safety
    ///
    /// The bytes stay where they are until the other side has received them.
    pub(crate) unsafe fn send(&mut self, socket: u32, bytes: &[u8]) -> io::Result<()> {
        let send = opcode::Send::new(Fixed(socket), bytes.as_ptr(), bytes.len() as u32)
            .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build();
        self.push(&send.flags(squeue::Flags::SKIP_SUCCESS).user_data(SEND))
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: a receive has memory of the ring only, and the caller of `send` keeps its bytes.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    /// Submits what was pushed, and waits for an event.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        match self.ring.submit_and_wait(1) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the next event that has come.
    pub(crate) fn next(&mut self) -> io::Result<Option<Event>> {
        let Some(entry) = self.ring.completion().next() else { return Ok(None) };
        let (result, flags) = (entry.result(), entry.flags());
        let starved = result == -libc::ENOBUFS && entry.user_data() != SEND;
        if result < 0 && !starved {
            return Err(io::Error::from_raw_os_error(-result));
        }
        Ok(Some(Event {
            word: entry.user_data(),
            len: result.max(0) as usize,
            starved,
            buffer: cqueue::buffer_select(flags),
            more: cqueue::more(flags),
        }))
    }

    /// Returns the bytes of an event.
    pub(crate) fn bytes(&self, event: &Event) -> &[u8] {
        let Some(number) = event.buffer else { return &[] };
        let start = usize::from(number) * BUFFER;
        // SAFETY: the kernel writes to this buffer only until it names it in an event, and after `give`.
        unsafe { std::slice::from_raw_parts(self.buffers.data.as_ptr().add(start), event.len) }
    }

    /// Gives the buffer of an event back to the kernel.
    pub(crate) fn give(&mut self, event: Event) {
        if let Some(number) = event.buffer {
            self.buffers.give(number);
        }
    }
}

/// The buffers of receives: a ring of free ones, which the kernel reads.
struct Buffers {
    free: *mut BufRingEntry,
    data: Vec<u8>,
    tail: u16,
}

impl Buffers {
    fn new(ring: &IoUring) -> io::Result<Buffers> {
        let size = usize::from(BUFFERS) * size_of::<BufRingEntry>();
        // SAFETY: a new mapping. It stays for the life of the process, as the kernel reads it.
        let free = unsafe {
            let (access, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0)
        };
        if free == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is as large as the ring, and stays.
        unsafe { ring.submitter().register_buf_ring_with_flags(free as u64, BUFFERS, GROUP, 0)? };
        let mut own = Buffers { free: free.cast(), data: vec![0; usize::from(BUFFERS) * BUFFER], tail: 0 };
        (0..BUFFERS).for_each(|number| own.give(number));
        Ok(own)
    }

    fn give(&mut self, number: u16) {
        // SAFETY: the place is in the ring, and the kernel does not read it before the tail has passed it.
        unsafe {
            let entry = &mut *self.free.add(usize::from(self.tail % BUFFERS));
            entry.set_addr(self.data.as_mut_ptr().add(usize::from(number) * BUFFER) as u64);
            entry.set_len(BUFFER as u32);
            entry.set_bid(number);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in the first entry, where the kernel reads it.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.free).cast_mut()) };
        // The kernel's part reads it with acquire.
        tail.store(self.tail, Ordering::Release);
    }
}
