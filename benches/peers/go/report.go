package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// report is the result of a run, as one line of JSON. Fields are in the order of their addition.
type report struct {
	fields string
}

func (r *report) field(key, value string) {
	if r.fields != "" {
		r.fields += ", "
	}
	r.fields += fmt.Sprintf("%q: %s", key, value)
}

func (r *report) number(key string, value float64) {
	check(!math.IsNaN(value) && !math.IsInf(value, 0), "%s is %v", key, value)
	r.field(key, fmt.Sprintf("%.4f", value))
}

func (r *report) count(key string, value int64) { r.field(key, fmt.Sprint(value)) }
func (r *report) flag(key string, value bool)   { r.field(key, fmt.Sprint(value)) }
func (r *report) text(key string, value string) { r.field(key, fmt.Sprintf("%q", value)) }
func (r *report) print()                        { fmt.Printf("{%s}\n", r.fields) }
func (r *report) each(key string, wall time.Duration, n int) {
	r.number(key, float64(wall)/float64(n))
}

// check ends the process when a result is wrong.
func check(right bool, format string, values ...any) {
	if !right {
		panic(fmt.Sprintf(format, values...))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// samples are sorted times.
type samples []time.Duration

func newSamples(times []time.Duration) samples {
	check(len(times) > 0, "nothing was measured")
	slices.Sort(times)
	return times
}

// percentile returns a percentile by nearest rank.
func (s samples) percentile(percent int) time.Duration {
	rank := (len(s)*percent + 99) / 100
	return s[max(rank, 1)-1]
}

func (s samples) min() time.Duration { return s[0] }
func (s samples) max() time.Duration { return s[len(s)-1] }

func (s samples) mean() float64 {
	sum := 0.0
	for _, t := range s {
		sum += float64(t)
	}
	return sum / float64(len(s))
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }
func us(d time.Duration) float64 { return float64(d) / 1e3 }
