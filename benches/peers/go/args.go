package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Exit codes: for a wrong command line; for a workload, or a form of a workload, that this program does not offer.
const (
	exitWrong      = 2
	exitNotOffered = 3
)

// args are the workload and its options. Each option that a workload reads is added to the report.
type args struct {
	workload string
	procs    int
	given    [][2]string
	report   *report
}

func commandLine() *args {
	words := os.Args[1:]
	if len(words) == 0 || strings.HasPrefix(words[0], "-") {
		wrong("usage: bench WORKLOAD [--key value ...]")
	}
	a := &args{workload: words[0], report: &report{}}
	a.report.text("impl", "go")
	a.report.text("workload", a.workload)
	for i := 1; i < len(words); i++ {
		key, isKey := strings.CutPrefix(words[i], "--")
		if !isKey {
			wrong("%q is no --key", words[i])
		}
		// A key without a value is a switch.
		value := "true"
		if i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") {
			i++
			value = words[i]
		}
		// If a key occurs twice, the last value counts.
		a.take(key)
		a.given = append(a.given, [2]string{key, value})
	}
	a.procs = a.count("procs", 2)
	return a
}

func (a *args) take(key string) (string, bool) {
	for i, given := range a.given {
		if given[0] == key {
			a.given = slices.Delete(a.given, i, i+1)
			return given[1], true
		}
	}
	return "", false
}

// number reads --key N.
func (a *args) number(key string, value int) int {
	if text, given := a.take(key); given {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			wrong("--%s is a number, not %q", key, text)
		}
		value = n
	}
	a.report.count(key, int64(value))
	return value
}

// count reads --key N, where N must be at least 1.
func (a *args) count(key string, value int) int {
	n := a.number(key, value)
	if n == 0 {
		wrong("--%s is at least 1", key)
	}
	return n
}

// word reads --key WORD, which must be one of words. The first of words is the default.
func (a *args) word(key string, words ...string) string {
	word := words[0]
	if text, given := a.take(key); given {
		if !slices.Contains(words, text) {
			notOffered("--%s is %s here, not %q", key, strings.Join(words, " or "), text)
		}
		word = text
	}
	a.report.text(key, word)
	return word
}

// end returns the report. It ends the process if an option was not read.
func (a *args) end() *report {
	if len(a.given) > 0 {
		wrong("%s has no --%s", a.workload, a.given[0][0])
	}
	return a.report
}

func wrong(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "error: "+format+"\n", values...)
	os.Exit(exitWrong)
}

func notOffered(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "not offered: "+format+"\n", values...)
	os.Exit(exitNotOffered)
}
