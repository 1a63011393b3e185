//! One P's timers: a 4-ary heap and the ten-state machine, knowing nothing of green threads.
