# Tests that pause tokio's clock run in a simulation, where no time passes while a green thread can run.
s/^#\[tokio::test\]/#[tokio::test(sim, seeds = 3)]/
s/start_paused = true/sim, seeds = 3/
$a\
tokio::sim!();
