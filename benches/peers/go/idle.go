package main

import (
	"net"
	"runtime"
	"sync/atomic"
	"time"
)

// idle measures the cost of a process that is idle, or has only a ticker.
func idle(a *args) *report {
	tasks := a.number("tasks", 10_000)
	conns := a.number("conns", 1_000)
	period := time.Duration(a.number("tick-ms", 0)) * time.Millisecond
	d := time.Duration(a.number("secs", 10)) * time.Second
	r := a.end()
	for range tasks {
		go time.Sleep(time.Hour)
	}
	listener, port := listen(0)
	held := make([]net.Conn, conns)
	for i := range held {
		held[i] = connect(port)
		conn, err := listener.Accept()
		must(err)
		go func() {
			n, err := conn.Read(make([]byte, 512))
			check(false, "a connection that was only held gave %d, %v", n, err)
		}()
	}
	var ticks atomic.Int64
	if period > 0 {
		go func() {
			for {
				time.Sleep(period)
				ticks.Add(1)
			}
		}()
	}
	time.Sleep(500 * time.Millisecond)

	before, ticksBefore := usage(), ticks.Load()
	time.Sleep(d)
	after := usage()
	r.number("cpu_ms", ms(cpu(after)-cpu(before)))
	r.count("vcsw", after.Nvcsw-before.Nvcsw)
	r.count("ivcsw", after.Nivcsw-before.Nivcsw)
	r.count("ticks", ticks.Load()-ticksBefore)
	// The connections stay open until the process ends.
	runtime.KeepAlive(held)
	runtime.KeepAlive(listener)
	return r
}
