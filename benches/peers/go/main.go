// The workloads of the comparison in Go, with its standard library only.
//
// bench WORKLOAD [--key value ...]. benches/peers/README.md defines the workloads.
package main

import "runtime"

var workloads = map[string]func(*args) *report{
	"timers":          timers,
	"sleepers-memory": sleepersMemory,
	"spawn-join":      spawnJoin,
	"spawn-batch":     spawnBatch,
	"yield":           yields,
	"pingpong":        pingpong,
	"chan":            channel,
	"skynet":          skynet,
	"sieve":           sieve,
	"mutex":           mutex,
	"timer-churn":     timerChurn,
	"timer-reset":     timerReset,
	"sleep-precision": sleepPrecision,
	"sleep-loaded":    sleepLoaded,
	"hog":             hogComputing,
	"hog-block":       hogBlocking,
	"hog-crowd":       hogCrowd,
	"echo":            echo,
	"http":            httpServer,
	"idle":            idle,
	"conns-memory":    connsMemory,
	"conns-client":    connsClient,
}

func main() {
	a := commandLine()
	workload, known := workloads[a.workload]
	if !known {
		wrong("there is no workload %q", a.workload)
	}
	raiseFileLimit()
	runtime.GOMAXPROCS(a.procs)
	// The workload runs in a new goroutine, not in the main goroutine.
	done := make(chan *report)
	go func() { done <- workload(a) }()
	(<-done).print()
}
