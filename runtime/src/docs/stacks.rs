//! Stacks of green threads: their size, what they cost, what an overflow does, and what happens when there is
//! no room for more.
//!
//! # Size, cost and overflow
//!
#![doc = include_str!("size_of_a_stack.md")]
//!
//! (On Windows the message names the OS thread.) A debug build is one in which the runtime is compiled with
//! debug assertions: frames that were not optimized are several times as large. The settings are
//! [`thread::Builder::stack_size`](crate::thread::Builder::stack_size) and
//! [`Builder::stack_size`](crate::Builder::stack_size). A future has a stack only while it is polled.
//!
//! A closure and its result move over the stack as a whole. If their size asks for it, the spawn takes a
//! larger stack, also than the size that was set. (The caller of `spawn` and of `join` has them on its own
//! stack, too.) Arrays within the closure's code do not count: box them, or set a size.
//!
//! A stack is taken when the green thread first runs. After its end the stack is used again by the next green
//! thread. The memory of stacks that a burst has left behind goes back to the system within seconds, and
//! their address space when the runtime ends. Their page tables go back some seconds later, where the kernel
//! frees page tables that map nothing (seen with Linux 6.18). Each green thread has a record of 256 bytes.
//! Records are reused and never freed, so their number is the largest number of green threads that were alive
//! at once.
//!
//! # Crates that grow stacks
//!
//! Crates that ask how much stack is left (`stacker`, and with it `serde_stacker` and some parsers) ask about
//! the OS thread's stack. Their answer is wrong on a green thread, so they do not grow the stack in time.
//! Give such a green thread a larger stack.
//!
//! # No more room
//!
//! If the system has no address space or memory for another green thread, [`spawn()`](crate::spawn()) panics
//! and [`thread::Builder::spawn`](crate::thread::Builder::spawn) returns an error. Both say what is missing
//! and what to do. Other green threads are not disturbed. A later call works as soon as another green thread
//! has ended or the system has room again.
//!
//! The runtime learns that there is no room when the system refuses a stack. Green threads that were spawned
//! before that, and have not begun, wait until others end. One line on stderr says so, and `stackless` of
//! [`metrics::snapshot`](crate::metrics::snapshot) counts them. A future waits for a stack, and is never
//! refused for want of one.
//!
//! The runtime keeps some megabytes of address space free, also from its OS threads, because memory
//! allocation would otherwise end the process. Only address space is checked. Memory that the system has
//! promised and cannot supply is the system's matter: on Linux, its out-of-memory killer ends a process.
