//! The monitor thread: decides when to retake, poll and start, and sleeps when there is nothing to watch.
