//! Runs each workload in a small size over each design. The workloads check their results themselves.

use std::thread;
use std::time::Duration;

use super::Workload;
use crate::designs::Design;

#[test]
fn each_runs_over_each_design() {
    let time = Duration::from_millis(20);
    let small = [
        Workload::Sleepers { n: 500, time: Duration::from_millis(5) },
        Workload::Churn { tasks: 2, n: 1_000 },
        Workload::Reset { tasks: 2, live: 500, n: 1_000 },
        Workload::Ticker { busy: 0, time },
        Workload::Ticker { busy: 4, time },
        Workload::Idle { sleepers: 100, time },
    ];
    // Side by side: most of the time the runs wait.
    let check = |workload: Workload, design| {
        let figures = workload.run(design, 2);
        for plotted in workload.plotted() {
            let value = figures.get(plotted);
            assert!(value.is_some_and(|value| value >= 0.0), "{workload:?}, {design:?}: {plotted}");
        }
    };
    for workload in small {
        thread::scope(|scope| {
            Design::ALL.into_iter().for_each(|design| _ = scope.spawn(move || check(workload, design)))
        });
    }
}
