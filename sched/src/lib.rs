//! The scheduler: green threads (G) on OS threads (M) with the right to run (P).
