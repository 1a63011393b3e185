package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// listen uses the system's backlog, which is 4096.
func listen(port int) (net.Listener, int) {
	listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	must(err)
	return listener, listener.Addr().(*net.TCPAddr).Port
}

func connect(port int) net.Conn {
	conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	must(err)
	return conn
}

// echo sends requests over loopback. The server and its clients are in one process. Go sets TCP_NODELAY by default.
func echo(a *args) *report {
	conns := a.count("conns", 64)
	size := a.count("size", 64)
	d := time.Duration(a.number("secs", 5)) * time.Second
	r := a.end()
	listener, port := listen(0)
	var servers, clients, accepted sync.WaitGroup
	var echoed atomic.Int64
	servers.Add(conns)
	accepted.Add(1)
	go func() {
		for range conns {
			conn, err := listener.Accept()
			must(err)
			go func() {
				echoed.Add(echoServe(conn))
				servers.Done()
			}()
		}
		accepted.Done()
	}()
	streams := make([]net.Conn, conns)
	for i := range streams {
		streams[i] = connect(port)
	}
	accepted.Wait()

	start := time.Now()
	times := make([][]time.Duration, conns)
	clients.Add(conns)
	for i, stream := range streams {
		go func() {
			times[i] = echoAsk(stream, size, start.Add(d))
			must(stream.Close())
			clients.Done()
		}()
	}
	clients.Wait()
	wall := time.Since(start)

	servers.Wait()
	var all []time.Duration
	for _, own := range times {
		all = append(all, own...)
	}
	check(echoed.Load() == int64(len(all)*size), "bytes were lost")
	s := newSamples(all)
	r.number("req_per_s", float64(len(all))/wall.Seconds())
	r.number("p50_us", us(s.percentile(50)))
	r.number("p99_us", us(s.percentile(99)))
	r.number("max_us", us(s.max()))
	return r
}

// echoServe serves a connection and returns the number of echoed bytes.
func echoServe(conn net.Conn) int64 {
	buffer := make([]byte, 1024)
	echoed := int64(0)
	for {
		n, err := conn.Read(buffer)
		if err == io.EOF {
			return echoed
		}
		must(err)
		_, err = conn.Write(buffer[:n])
		must(err)
		echoed += int64(n)
	}
}

// echoAsk sends requests and returns the time of each request.
func echoAsk(conn net.Conn, size int, end time.Time) []time.Duration {
	times := make([]time.Duration, 0, 1<<16)
	message, answer := make([]byte, size), make([]byte, size)
	for {
		for i := range message {
			message[i] = byte(len(times))
		}
		start := time.Now()
		_, err := conn.Write(message)
		must(err)
		_, err = io.ReadFull(conn, answer)
		must(err)
		now := time.Now()
		check(bytes.Equal(answer, message), "what came back is not what was sent")
		times = append(times, now.Sub(start))
		if !now.Before(end) {
			return times
		}
	}
}

var httpAnswer = []byte("HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, World!")

// httpServer gives each request the same answer, until the driver kills the process.
func httpServer(a *args) *report {
	port := a.number("port", 0)
	r := a.end()
	listener, port := listen(port)
	r.count("listens", int64(port))
	r.print()
	for {
		conn, err := listener.Accept()
		must(err)
		go httpServe(conn)
	}
}

func httpServe(conn net.Conn) {
	defer conn.Close()
	end := []byte("\r\n\r\n")
	buffer := make([]byte, 4096)
	filled := 0
	var answers []byte
	for {
		// If a request is too long, no space is left, and the read returns 0.
		n, err := conn.Read(buffer[filled:])
		if n == 0 || err != nil {
			return
		}
		filled += n
		done := 0
		for {
			at := bytes.Index(buffer[done:filled], end)
			if at < 0 {
				break
			}
			answers = append(answers, httpAnswer...)
			done += at + len(end)
		}
		copy(buffer, buffer[done:filled])
		filled -= done
		if _, err := conn.Write(answers); err != nil {
			return
		}
		answers = answers[:0]
	}
}

// connsMemory measures the memory of an idle connection in the server.
func connsMemory(a *args) *report {
	n := a.count("n", 10_000)
	r := a.end()
	listener, port := listen(0)
	before := rss()
	path, err := os.Executable()
	must(err)
	client := exec.Command(path, "conns-client", "--port", strconv.Itoa(port), "--n", strconv.Itoa(n),
		"--procs", strconv.Itoa(a.procs))
	client.Stderr = os.Stderr
	must(client.Start())
	for range n {
		conn, err := listener.Accept()
		must(err)
		go connsWait(conn)
	}
	time.Sleep(500 * time.Millisecond)
	after := rss()
	must(client.Process.Kill())
	client.Wait()
	r.number("bytes_per_conn", bytesEach(before, after, n))
	return r
}

// connsWait blocks in a read until the other side ends.
func connsWait(conn net.Conn) {
	var buffer [512]byte
	n, _ := conn.Read(buffer[:])
	check(n == 0, "the other side never writes")
}

// connsClient is the client. The server kills the client at its end.
func connsClient(a *args) *report {
	port := a.number("port", 0)
	n := a.count("n", 10_000)
	r := a.end()
	var connected, over sync.WaitGroup
	connected.Add(4)
	over.Add(n)
	for task := range 4 {
		// The first tasks also take the remainder of the division.
		share := n / 4
		if task < n%4 {
			share++
		}
		go func() {
			for range share {
				conn := connect(port)
				go func() {
					connsWait(conn)
					over.Done()
				}()
			}
			connected.Done()
		}()
	}
	connected.Wait()
	fmt.Println("ready")
	over.Wait()
	return r
}
