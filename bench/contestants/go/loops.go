package main

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// Loops performs the requests; a "thread" is a goroutine.
type Loops struct {
	library *Library
	mutexes map[string]*mutex
}

// lock is the same for requests that follow each other.
func (loops *Loops) lock(name string) *mutex {
	if loops.mutexes[name] == nil {
		loops.mutexes[name] = loops.library.lock(name)
	}
	return loops.mutexes[name]
}

func (loops *Loops) perform(asked request) (reply, error) {
	switch asked.Do {
	case "pairs":
		return loops.pairs(asked), nil
	case "nested":
		return nil, unsupported("not reentrant")
	case "throughput":
		return loops.throughput(asked), nil
	case "contend":
		return loops.contend(asked), nil
	case "acquire":
		from := now()
		acquired, err := loops.lock(asked.Lock).acquire(time.Duration(asked.WaitMs) * time.Millisecond)
		return reply{"acquired": acquired, "asked": from, "entered": now()}, err
	case "release":
		began := now()
		err := loops.lock(asked.Lock).release()
		return reply{"began": began, "ended": now()}, err
	case "wait":
		for range asked.Threads {
			go func() {
				if err := loops.library.lock(asked.Lock).Lock(); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
			}()
		}
		return reply{"waiting": asked.Threads}, nil
	}
	return nil, unsupported("no such request: " + asked.Do)
}

func pair(lock *mutex) error {
	if err := lock.must(); err != nil {
		return err
	}
	return lock.release()
}

func (loops *Loops) pairs(asked request) reply {
	lock, took, failed := loops.lock(asked.Lock), make([]int64, 0, asked.Count), []string{}
	for range asked.Count {
		began := now()
		if err := pair(lock); err != nil {
			failed = append(failed, told(err))
			continue
		}
		took = append(took, now()-began)
	}
	return reply{"ns": took, "errors": failed}
}

func (loops *Loops) throughput(asked request) reply {
	done, failed := make([]int, asked.Threads), &faults{list: []string{}}
	began := now()
	until := began + int64(asked.Seconds*1e9)
	together(asked.Threads, func(i int) {
		lock := loops.library.lock(fmt.Sprint(asked.Prefix, i))
		for now() < until {
			if err := pair(lock); err != nil {
				failed.add(err)
				return
			}
			done[i]++
		}
	})
	sum := 0
	for _, each := range done {
		sum += each
	}
	return reply{"pairs": sum, "ns": now() - began, "errors": failed.list}
}

func (loops *Loops) contend(asked request) reply {
	sections, failed := make([][][4]int64, asked.Threads), &faults{list: []string{}}
	together(asked.Threads, func(i int) {
		lock := loops.library.lock(asked.Lock)
		time.Sleep(time.Duration(asked.StartNs - now()))
		for from := now(); from < asked.StopNs; from = now() {
			if err := lock.must(); err != nil {
				failed.add(err)
				continue
			}
			entered := now()
			time.Sleep(time.Duration(asked.HoldUs) * time.Microsecond)
			left := now()
			sections[i] = append(sections[i], [4]int64{int64(i), from, entered, left})
			if err := lock.release(); err != nil {
				failed.add(err)
			}
		}
	})
	all := [][4]int64{}
	for _, each := range sections {
		all = append(all, each...)
	}
	return reply{"sections": all, "errors": failed.list}
}

func together(threads int, loop func(i int)) {
	var running sync.WaitGroup
	for i := range threads {
		running.Go(func() { loop(i) })
	}
	running.Wait()
}

// faults are the errors of several goroutines.
type faults struct {
	mutex sync.Mutex
	list  []string
}

func (failed *faults) add(err error) {
	failed.mutex.Lock()
	defer failed.mutex.Unlock()
	failed.list = append(failed.list, told(err))
}
