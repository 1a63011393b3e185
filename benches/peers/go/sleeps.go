package main

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// sleepPrecision measures the lateness of sleeps.
func sleepPrecision(a *args) *report {
	reps := a.count("reps", 1_000)
	r := a.end()
	for _, t := range []int{20, 100, 500, 1_000, 10_000} {
		measureSleeps(r, t, reps)
	}
	return r
}

// sleepLoaded measures the lateness of sleeps beside busy tasks that yield.
func sleepLoaded(a *args) *report {
	reps := a.count("reps", 1_000)
	busy := a.count("busy", 2)
	r := a.end()
	var over atomic.Bool
	var wg sync.WaitGroup
	wg.Add(busy)
	for range busy {
		go func() {
			for !over.Load() {
				spin(50 * time.Microsecond)
				runtime.Gosched()
			}
			wg.Done()
		}()
	}
	for _, t := range []int{1_000, 10_000} {
		measureSleeps(r, t, reps)
	}
	over.Store(true)
	wg.Wait()
	return r
}

func measureSleeps(r *report, timeUs, reps int) {
	d := time.Duration(timeUs) * time.Microsecond
	over := make([]time.Duration, reps)
	for i := range over {
		start := time.Now()
		time.Sleep(d)
		over[i] = time.Since(start) - d
		check(over[i] >= 0, "a sleep of %v was too short", d)
	}
	s := newSamples(over)
	r.number(fmt.Sprintf("d%dus_p50_us", timeUs), us(s.percentile(50)))
	r.number(fmt.Sprintf("d%dus_p99_us", timeUs), us(s.percentile(99)))
}
