package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// timerChurn creates an armed timer and cancels that timer, n times in one task.
func timerChurn(a *args) *report {
	n := a.count("n", 5_000_000)
	kind := a.word("kind", "cb", "chan")
	r := a.end()
	var wall time.Duration
	over := make(chan struct{})
	go func() {
		start := time.Now()
		stopped := 0
		if kind == "cb" {
			for range n {
				if time.AfterFunc(time.Second, fired).Stop() {
					stopped++
				}
			}
		} else {
			for range n {
				if time.NewTimer(time.Second).Stop() {
					stopped++
				}
			}
		}
		wall = time.Since(start)
		check(stopped == n, "only %d of %d timers could be stopped", stopped, n)
		close(over)
	}()
	<-over
	r.each("ns_per_op", wall, n)
	return r
}

func fired() {}

// timerReset runs tasks that reset many timers of their own to new deadlines.
func timerReset(a *args) *report {
	live := a.count("live", 100_000)
	tasks := a.count("tasks", 2)
	n := a.count("n", 5_000_000)
	kind := a.word("kind", "cb", "chan")
	r := a.end()
	if tasks > a.procs || live < tasks {
		wrong("--tasks is not above --procs or --live")
	}
	live /= tasks
	share := n / tasks
	type span struct{ start, end time.Time }
	spans := make([]span, tasks)
	var running atomic.Int64
	var wg sync.WaitGroup
	wg.Add(tasks)
	for task := range tasks {
		go func() {
			random := randomOfTask(task)
			timers := make([]*time.Timer, live)
			for i := range timers {
				if kind == "cb" {
					timers[i] = time.AfterFunc(random.deadline(), fired)
				} else {
					timers[i] = time.NewTimer(random.deadline())
				}
			}
			// The wait does not yield, so that all tasks can arrive only if they run on different workers.
			running.Add(1)
			for running.Load() < int64(tasks) {
			}
			start := time.Now()
			for range share {
				i := random.next() % uint64(live)
				timers[i].Reset(random.deadline())
			}
			spans[task] = span{start, time.Now()}
			wg.Done()
		}()
	}
	wg.Wait()
	first, last := spans[0].start, spans[0].end
	for _, span := range spans {
		if span.start.Before(first) {
			first = span.start
		}
		if span.end.After(last) {
			last = span.end
		}
	}
	r.each("ns_per_op", last.Sub(first), share*tasks)
	return r
}
