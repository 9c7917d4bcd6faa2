// Judges a history of locks with Porcupine, a linearizability checker that is not ours.
//
//	go run . history.edn
//
// The model is the reentrant fenced mutex of Hazelcast's Jepsen tests: an owner, a hold count and a fence that
// grows. Any number of readers may hold it while it has no owner; an owner may become a reader. A reader's token
// may be an old one, because masters lose their memory; the next owner's is above it. Exit status: 0 the history is linearizable; 1 it is not; 2 no verdict (time-out, unreadable file).
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// One operation of one owner. An owner is one outermost acquisition: it is never used again.
type input struct {
	lock, f, owner, within string
}

type mutex struct {
	owner string
	count int
	fence int64
	// The owners of readers, in their order, with spaces between them: a state has to be comparable.
	readers string
}

func (m mutex) with(reader string) mutex {
	all := append(strings.Fields(m.readers), reader)
	slices.Sort(all)
	m.readers = strings.Join(all, " ")
	return m
}

func (m mutex) without(reader string) (bool, mutex) {
	all := strings.Fields(m.readers)
	at, found := slices.BinarySearch(all, reader)
	if found {
		m.readers = strings.Join(slices.Delete(all, at, at+1), " ")
	}
	return found, m
}

var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byLock := map[string][]porcupine.Operation{}
		for _, operation := range history {
			name := operation.Input.(input).lock
			byLock[name] = append(byLock[name], operation)
		}
		var parts [][]porcupine.Operation
		for _, part := range byLock {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return mutex{} },
	Step: func(before, in, out any) (bool, any) {
		now, does, token := before.(mutex), in.(input), out.(int64)
		mine := now.owner == does.owner
		switch does.f {
		case "acquire":
			if now.owner == "" && now.readers == "" && token > now.fence {
				return true, mutex{does.owner, 1, token, ""}
			}
			return mine && token == now.fence, mutex{now.owner, now.count + 1, now.fence, now.readers}
		case "share":
			free := now.owner == "" || now.owner == does.within
			now.fence = max(now.fence, token)
			return free, now.with(does.owner)
		}
		// The last release, or the validity of a lease ends: from then on somebody else may have the lock.
		ends := does.f != "release"
		if mine && now.count > 1 && !ends {
			return true, mutex{now.owner, now.count - 1, now.fence, now.readers}
		} else if mine {
			return true, mutex{"", 0, now.fence, now.readers}
		}
		found, after := now.without(does.owner)
		return found || ends, after
	},
}

// One line of the file: {:index 7, :process 3, :type :invoke, :f :acquire, :time 12, :value ["job" {:owner "a", :token 5}]}
var line = regexp.MustCompile(
	`^\{:index \d+, :process (\d+), :type :(\w+), :f :(\w+), :time (\d+), ` +
		`:value \["((?:[^"\\]|\\.)*)" \{:owner "([^"]*)"(?:, :token (\d+))?(?:, :within "([^"]*)")?\}\]\}$`)

func read(path string) ([]porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var history []porcupine.Operation
	open := map[int]int{} // the operation that each process has begun
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		found := line.FindStringSubmatch(lines.Text())
		if found == nil {
			return nil, fmt.Errorf("%s:%d is no operation: %s", path, number, lines.Text())
		}
		process, _ := strconv.Atoi(found[1])
		at, _ := strconv.ParseInt(found[4], 10, 64)
		token, _ := strconv.ParseInt(found[7], 10, 64)
		switch found[2] {
		case "invoke":
			if _, busy := open[process]; busy {
				return nil, fmt.Errorf("%s:%d: process %d has an operation under way", path, number, process)
			}
			open[process] = len(history)
			in := input{found[5], found[3], found[6], found[8]}
			// Without a return the operation may take effect at any later time.
			history = append(history, porcupine.Operation{ClientId: process, Input: in, Call: at, Output: int64(0), Return: math.MaxInt64})
		case "ok":
			index, begun := open[process]
			if !begun {
				return nil, fmt.Errorf("%s:%d: process %d has no operation under way", path, number, process)
			}
			delete(open, process)
			history[index].Output, history[index].Return = token, at
		case "info":
		default:
			return nil, fmt.Errorf("%s:%d has the unknown type %s", path, number, found[2])
		}
	}
	return history, lines.Err()
}

func main() {
	history, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	began := time.Now()
	verdict := porcupine.CheckOperationsTimeout(model, history, 5*time.Minute)
	fmt.Printf("porcupine: %s, %d operations, %.1f s\n", verdict, len(history), time.Since(began).Seconds())
	switch verdict {
	case porcupine.Ok:
	case porcupine.Illegal:
		os.Exit(1)
	default:
		os.Exit(2)
	}
}
