//! The netpoller: readiness of descriptors on mio, knowing nothing of green threads.
