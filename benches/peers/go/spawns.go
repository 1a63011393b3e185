package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// spawnJoin spawns an empty task and joins that task, n times.
func spawnJoin(a *args) *report {
	n := a.count("n", 1_000_000)
	r := a.end()
	var wg sync.WaitGroup
	start := time.Now()
	for range n {
		wg.Add(1)
		go func() { wg.Done() }()
		wg.Wait()
	}
	r.each("ns_per_op", time.Since(start), n)
	return r
}

// spawnBatch spawns n empty tasks, then joins all.
func spawnBatch(a *args) *report {
	n := a.count("n", 100_000)
	rounds := a.count("rounds", 10)
	r := a.end()
	start := time.Now()
	for range rounds {
		var wg sync.WaitGroup
		for range n {
			wg.Add(1)
			go func() { wg.Done() }()
		}
		wg.Wait()
	}
	r.each("ns_per_task", time.Since(start), n*rounds)
	return r
}

// yields runs two tasks a worker, each of which yields n times.
func yields(a *args) *report {
	n := a.count("n", 1_000_000)
	r := a.end()
	var wg sync.WaitGroup
	var all atomic.Int64
	start := time.Now()
	for range 2 * a.procs {
		wg.Add(1)
		go func() {
			yields := 0
			for range n {
				runtime.Gosched()
				yields++
			}
			all.Add(int64(yields))
			wg.Done()
		}()
	}
	wg.Wait()
	wall := time.Since(start)
	check(all.Load() == int64(2*a.procs*n), "yields were lost")
	r.number("ns_per_yield", float64(wall)*float64(a.procs)/float64(all.Load()))
	return r
}
