// The worker of the Go contestant: reads requests, runs them with redsync, writes replies.
//
//	worker redsync|redsync-failfast
//
// The protocol: bench/contestants/README.md.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// request has the fields of all requests; what one lacks is zero.
type request struct {
	Do      string   `json:"do"`
	Masters []string `json:"masters"`
	TTLMs   int64    `json:"ttl_ms"`
	PollMs  *float64 `json:"poll_ms"`
	Lock    string   `json:"lock"`
	Own     bool     `json:"own"`
	Nested  bool     `json:"nested"`
	Count   int      `json:"count"`
	Threads int      `json:"threads"`
	HoldUs  int64    `json:"hold_us"`
	StartNs int64    `json:"start_ns"`
	StopNs  int64    `json:"stop_ns"`
	WaitMs  int64    `json:"wait_ms"`
}

type reply map[string]any

// unsupported is what this library cannot do.
type unsupported string

func (why unsupported) Error() string { return string(why) }

// now is CLOCK_MONOTONIC, which Go's own clock shows only as differences.
func now() int64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &at); err != nil {
		panic(err)
	}
	return at.Nano()
}

// told is an error in one line, with its kind.
func told(err error) string {
	text := strings.TrimPrefix(fmt.Sprintf("%T: %v", err, err), "*")
	text = strings.ReplaceAll(text, "\n", "; ")
	return text[:min(len(text), 300)]
}

func answer(loops **Loops, failFast bool, asked request) (reply, error) {
	if asked.Do == "open" {
		library, err := open(asked.Masters, asked.TTLMs, asked.PollMs, failFast)
		if err != nil {
			return nil, err
		}
		*loops = &Loops{library: library, mutexes: map[string]*mutex{}}
		version := strings.TrimPrefix(runtime.Version(), "go")
		return reply{"version": library.version, "runtime": "Go " + version}, nil
	}
	if *loops == nil {
		return nil, errors.New("not opened")
	}
	return (*loops).perform(asked)
}

// read ends the process with its input: who asks is gone, and what is being done may wait for a lock for long.
func read(lines chan<- []byte) {
	scanner := bufio.NewScanner(os.Stdin)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		lines <- bytes.Clone(scanner.Bytes())
	}
	os.Exit(0)
}

func main() {
	adapter := "redsync"
	if len(os.Args) > 1 {
		adapter = os.Args[1]
	}
	if adapter != "redsync" && adapter != "redsync-failfast" {
		fmt.Fprintln(os.Stderr, "no such adapter:", adapter)
		os.Exit(2)
	}
	var loops *Loops
	lines := make(chan []byte)
	go read(lines)
	replies := json.NewEncoder(os.Stdout)
	for line := range lines {
		var asked request
		if err := json.Unmarshal(line, &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		result, err := answer(&loops, adapter == "redsync-failfast", asked)
		if err != nil {
			result = reply{"ok": false, "error": told(err)}
			if why, is := err.(unsupported); is {
				result = reply{"ok": false, "unsupported": string(why)}
			}
		} else {
			result["ok"] = true
		}
		if err := replies.Encode(result); err != nil {
			os.Exit(1)
		}
	}
}
