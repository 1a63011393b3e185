package main

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const tick = time.Millisecond

// span is a stretch of time, measured from the begin of the workload.
type span struct{ start, end time.Duration }

func (s span) overlaps(other span) bool { return s.start < other.end && other.start < s.end }

func hogComputing(a *args) *report { return hog(a, spin) }

// hogBlocking is hog with hogs that block their OS thread. syscall.Syscall announces the block to Go.
func hogBlocking(a *args) *report {
	return hog(a, func(d time.Duration) time.Duration {
		start := time.Now()
		left := syscall.NsecToTimespec(int64(d))
		for {
			_, _, errno := syscall.Syscall(syscall.SYS_NANOSLEEP,
				uintptr(unsafe.Pointer(&left)), uintptr(unsafe.Pointer(&left)), 0)
			if errno == 0 {
				return time.Since(start)
			}
			// A signal interrupted the sleep. The kernel has written the remaining time back.
			check(errno == syscall.EINTR, "nanosleep: %v", errno)
		}
	})
}

// hog runs a ticker beside bursts of tasks that compute, or block, for a long time.
func hog(a *args, run func(time.Duration) time.Duration) *report {
	hogs := a.count("hogs", 2)
	d := time.Duration(a.number("ms", 200)) * time.Millisecond
	bursts := a.count("bursts", 5)
	r := a.end()
	epoch := time.Now()
	var over atomic.Bool
	ticker := startTicker(epoch, &over)
	time.Sleep(50 * time.Millisecond)
	var spans []span
	took := make([]time.Duration, hogs*bursts)
	for burst := range bursts {
		start := time.Since(epoch)
		var wg sync.WaitGroup
		wg.Add(hogs)
		for i := range hogs {
			go func() {
				took[burst*hogs+i] = run(d)
				wg.Done()
			}()
		}
		wg.Wait()
		spans = append(spans, span{start, time.Since(epoch)})
		time.Sleep(50 * time.Millisecond)
	}
	over.Store(true)
	reportTicks(r, <-ticker, spans)
	r.number("hog_ms", newSamples(took).mean()/1e6)
	return r
}

// startTicker starts a task that sleeps a tick in a loop until it is told to end. The task then sends the span of each sleep.
func startTicker(epoch time.Time, over *atomic.Bool) <-chan []span {
	result := make(chan []span, 1)
	go func() {
		ticks := make([]span, 0, 20_000)
		for !over.Load() {
			t0 := time.Since(epoch)
			time.Sleep(tick)
			ticks = append(ticks, span{t0, time.Since(epoch)})
		}
		result <- ticks
	}()
	return result
}

// hogCrowd runs a ticker beside many tasks that compute until the end of the workload.
func hogCrowd(a *args) *report {
	hogs := a.count("hogs", 1000)
	d := time.Duration(a.number("secs", 10)) * time.Second
	r := a.end()
	epoch := time.Now()
	var over, crowdOver atomic.Bool
	var begun, lastBegun atomic.Int64
	ticker := startTicker(epoch, &over)
	time.Sleep(50 * time.Millisecond)
	start := time.Since(epoch)
	var wg sync.WaitGroup
	wg.Add(hogs)
	for range hogs {
		go func() {
			begun.Add(1)
			// This value is roughly the latest begin, because the hogs begin one after the other.
			lastBegun.Store(int64(time.Since(epoch)))
			for !crowdOver.Load() {
				spin(0)
			}
			wg.Done()
		}()
	}
	threads := int64(0)
	for time.Since(epoch)-start < d {
		time.Sleep(100 * time.Millisecond)
		threads = max(threads, osThreads())
	}
	haveBegun, last := begun.Load(), time.Duration(lastBegun.Load())
	over.Store(true)
	ticks := <-ticker
	all := span{start, time.Since(epoch)}
	crowdOver.Store(true)
	wg.Wait()

	reportTicks(r, ticks, []span{all})
	r.count("begun", haveBegun)
	r.number("last_begun_s", (last - start).Seconds())
	r.count("threads", threads)
	return r
}

func reportTicks(r *report, ticks, spans []span) {
	hit, late := 0, []time.Duration{}
	for _, t := range ticks {
		for _, burst := range spans {
			if t.overlaps(burst) {
				hit++
				late = appendLateness(late, t.end-t.start-tick)
				break
			}
		}
	}
	s := newSamples(late)
	r.number("p50_ms", ms(s.percentile(50)))
	r.number("p99_ms", ms(s.percentile(99)))
	r.number("max_ms", ms(s.max()))
	r.count("ticks", int64(hit))
}

// appendLateness adds the lateness of a tick, and of the ticks that the late tick replaced.
func appendLateness(all []time.Duration, late time.Duration) []time.Duration {
	check(late >= 0, "a tick came %v early", -late)
	all = append(all, late)
	for late -= tick; late > 0; late -= tick {
		all = append(all, late)
	}
	return all
}
