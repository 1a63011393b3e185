package main

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pingpong sends a value from one task to another and back.
func pingpong(a *args) *report {
	n := a.count("n", 1_000_000)
	r := a.end()
	there, back := make(chan uint64), make(chan uint64)
	last := uint64(0)
	var wg sync.WaitGroup
	wg.Add(2)
	start := time.Now()
	go func() {
		v := uint64(0)
		for range n {
			there <- v
			v = <-back
		}
		last = v
		wg.Done()
	}()
	go func() {
		for range n {
			v := <-there
			back <- v + 1
		}
		wg.Done()
	}()
	wg.Wait()
	wall := time.Since(start)
	check(last == uint64(n), "a round trip was lost")
	r.each("ns_per_rt", wall, n)
	return r
}

// channel runs p producers and c consumers on one bounded channel.
func channel(a *args) *report {
	p, c := a.count("p", 4), a.count("c", 4)
	capacity := a.number("cap", 1024)
	n := a.count("n", 8_000_000)
	r := a.end()
	share := n / p
	n = share * p
	ch := make(chan uint64, capacity)
	var producers, consumers sync.WaitGroup
	var sum atomic.Uint64
	producers.Add(p)
	consumers.Add(c)
	start := time.Now()
	for range p {
		go func() {
			for v := range uint64(share) {
				ch <- v
			}
			producers.Done()
		}()
	}
	for range c {
		go func() {
			own := uint64(0)
			for v := range ch {
				own += v
			}
			sum.Add(own)
			consumers.Done()
		}()
	}
	producers.Wait()
	close(ch)
	consumers.Wait()
	wall := time.Since(start)
	check(sum.Load() == uint64(p)*uint64(share)*uint64(share-1)/2, "the sum is %d", sum.Load())
	r.number("mmsgs_per_s", float64(n)/wall.Seconds()/1e6)
	r.each("ns_per_msg", wall, n)
	return r
}

// skynet runs a tree of tasks that adds up the numbers of its leaves.
func skynet(a *args) *report {
	n := a.count("n", 1_000_000)
	capacity := a.number("cap", 0)
	reps := a.count("reps", 4)
	r := a.end()
	power := 1
	for power < n {
		power *= 10
	}
	if power != n || reps < 2 {
		wrong("--n is a power of 10, and --reps at least 2")
	}
	var times []time.Duration
	for range reps {
		start := time.Now()
		root := make(chan uint64, capacity)
		go skynetNode(root, 0, n, capacity)
		sum := <-root
		times = append(times, time.Since(start))
		check(sum == uint64(n)*uint64(n-1)/2, "the sum is %d", sum)
	}
	warm := times[1:]
	slices.Sort(warm)
	r.number("first_ms", ms(times[0]))
	r.number("warm_ms", ms(warm[(len(warm)-1)/2]))
	return r
}

func skynetNode(parent chan<- uint64, number, size, capacity int) {
	if size == 1 {
		parent <- uint64(number)
		return
	}
	children := make(chan uint64, capacity)
	size /= 10
	for i := range 10 {
		go skynetNode(children, number+i*size, size, capacity)
	}
	sum := uint64(0)
	for range 10 {
		sum += <-children
	}
	parent <- sum
}

// sieve runs a filter task for each prime found.
func sieve(a *args) *report {
	n := a.count("n", 2_000)
	limit := a.count("limit", 17_389)
	r := a.end()
	start := time.Now()
	ch := make(chan uint64)
	go func(out chan<- uint64) {
		for v := uint64(2); v <= uint64(limit); v++ {
			out <- v
		}
	}(ch)
	prime := uint64(0)
	for found := 1; ; found++ {
		prime = <-ch
		if found == n {
			break
		}
		filtered := make(chan uint64)
		go sieveFilter(ch, filtered, prime)
		ch = filtered
	}
	wall := time.Since(start)
	check(prime == nthPrime(n, limit), "the last prime is %d", prime)
	r.number("ms", ms(wall))
	return r
}

func sieveFilter(in <-chan uint64, out chan<- uint64, prime uint64) {
	for v := range in {
		if v%prime != 0 {
			out <- v
		}
	}
}

// nthPrime computes the expected result of sieve in another way.
func nthPrime(n, limit int) uint64 {
	composite := make([]bool, limit+1)
	for i := 2; i <= limit; i++ {
		if composite[i] {
			continue
		}
		n--
		if n == 0 {
			return uint64(i)
		}
		for multiple := i * i; multiple <= limit; multiple += i {
			composite[multiple] = true
		}
	}
	panic("there are not so many primes up to the limit")
}

// mutex runs tasks that add to one counter under a mutex.
func mutex(a *args) *report {
	tasks := a.count("tasks", 8)
	n := a.count("n", 4_000_000)
	r := a.end()
	share := n / tasks
	n = share * tasks
	var lock sync.Mutex
	var wg sync.WaitGroup
	counter := 0
	wg.Add(tasks)
	start := time.Now()
	for range tasks {
		go func() {
			for range share {
				lock.Lock()
				counter++
				lock.Unlock()
			}
			wg.Done()
		}()
	}
	wg.Wait()
	wall := time.Since(start)
	check(counter == n, "the counter is %d", counter)
	r.each("ns_per_op", wall, n)
	return r
}
