package main

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// raiseFileLimit raises the soft limit of open files to the hard limit.
func raiseFileLimit() {
	var limit syscall.Rlimit
	must(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	limit.Cur = limit.Max
	must(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
}

// rss returns the memory in use: VmRSS of /proc/self/status.
func rss() int64 { return status("VmRSS:") * 1024 }

// osThreads returns the number of OS threads: Threads of /proc/self/status.
func osThreads() int64 { return status("Threads:") }

func status(key string) int64 {
	status, err := os.ReadFile("/proc/self/status")
	must(err)
	_, rest, found := strings.Cut(string(status), key)
	check(found, "/proc/self/status has no %s", key)
	number, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	must(err)
	return number
}

// bytesEach returns the memory that each of n things takes, from the memory before and after.
func bytesEach(before, after int64, n int) float64 {
	return float64(max(after-before, 0)) / float64(n)
}

func usage() syscall.Rusage {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return usage
}

func cpu(u syscall.Rusage) time.Duration {
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// spun keeps the result of spin, so that the compiler does not remove the computation.
var spun atomic.Uint64

// spin computes until d of wall time has passed, without a yield.
func spin(d time.Duration) time.Duration {
	steps := 10_000
	if d < time.Millisecond {
		steps = 1_000
	}
	start := time.Now()
	x := uint64(1)
	for {
		for range steps {
			x = x*6364136223846793005 + 1442695040888963407
		}
		took := time.Since(start)
		if took >= d {
			spun.Store(x)
			return took
		}
	}
}

// random holds the random numbers of a task, by xorshift64.
type random uint64

func randomOfTask(t int) random { return random(0x9E3779B97F4A7C15 + uint64(t)) }

func (r *random) next() uint64 {
	x := uint64(*r)
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	*r = random(x)
	return x
}

// deadline returns a random time of 1 to 60 s.
func (r *random) deadline() time.Duration {
	return time.Duration(1_000_000_000 + r.next()%59_000_000_000)
}
