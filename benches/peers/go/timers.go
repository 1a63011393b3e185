package main

import (
	"sync/atomic"
	"time"
)

// timers runs n tasks, each of which arms a timer or sleeps.
func timers(a *args) *report {
	n := a.count("n", 1_000)
	d := time.Duration(a.number("ms", 10)) * time.Millisecond
	kind := a.word("kind", "cb", "sleep")
	r := a.end()
	slots := make([]time.Duration, n)
	for i := range slots {
		slots[i] = -1
	}
	var left atomic.Int64
	left.Store(int64(n))
	over := make(chan struct{})
	done := func(i int, t0 time.Time) {
		slots[i] = time.Since(t0)
		if left.Add(-1) == 0 {
			close(over)
		}
	}

	start := time.Now()
	for i := range n {
		if kind == "cb" {
			go func() {
				t0 := time.Now()
				time.AfterFunc(d, func() { done(i, t0) })
			}()
		} else {
			go func() {
				t0 := time.Now()
				time.Sleep(d)
				done(i, t0)
			}()
		}
	}
	<-over
	wall := time.Since(start)

	s := newSamples(slots)
	check(s.min() >= d, "a timer of %v fired after %v", d, s.min())
	r.number("mean_ms", s.mean()/1e6)
	r.number("p50_ms", ms(s.percentile(50)))
	r.number("p99_ms", ms(s.percentile(99)))
	r.number("max_ms", ms(s.max()))
	r.number("wall_ms", ms(wall))
	return r
}

// sleepersMemory measures the memory of a sleeping task.
func sleepersMemory(a *args) *report {
	n := a.count("n", 100_000)
	d := time.Duration(a.number("secs", 5)) * time.Second
	r := a.end()
	var started atomic.Int64
	before := rss()

	start := time.Now()
	for range n {
		go func() {
			started.Add(1)
			time.Sleep(d)
		}()
	}
	spawned := time.Since(start)
	for started.Load() < int64(n) {
		time.Sleep(time.Millisecond)
	}
	allStarted := time.Since(start)
	time.Sleep(200 * time.Millisecond)
	after := rss()
	valid := time.Since(start) < d

	r.number("bytes_per_task", bytesEach(before, after, n))
	r.number("spawn_ms", ms(spawned))
	r.number("started_ms", ms(allStarted))
	r.flag("valid", valid)
	return r
}
