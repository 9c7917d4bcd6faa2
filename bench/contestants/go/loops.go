package main

import (
	"fmt"
	"sync"
	"time"
)

// section is one critical section: the thread, before acquire, after it, before release, after it (0: it failed).
type section [5]int64

// Loops performs the requests; a "thread" is a goroutine.
type Loops struct {
	library *Library
	mutexes map[string]*mutex
}

// lock is the same for requests that follow each other.
func (loops *Loops) lock(name string, thread int) *mutex {
	key := fmt.Sprint(thread, " ", name)
	if loops.mutexes[key] == nil {
		loops.mutexes[key] = loops.library.lock(name)
	}
	return loops.mutexes[key]
}

func (loops *Loops) perform(asked request) (reply, error) {
	switch asked.Do {
	case "loop":
		if asked.Nested {
			return nil, unsupported("not reentrant")
		}
		return loops.loop(asked), nil
	case "acquire":
		from := now()
		acquired, err := loops.lock(asked.Lock, 0).acquire(time.Duration(asked.WaitMs) * time.Millisecond)
		return reply{"acquired": acquired, "asked": from, "entered": now()}, err
	case "release":
		began := now()
		return reply{"began": began}, loops.lock(asked.Lock, 0).release()
	}
	return nil, unsupported("no such request: " + asked.Do)
}

func (loops *Loops) loop(asked request) reply {
	threads, wait := max(asked.Threads, 1), patience
	if asked.WaitMs != 0 {
		wait = time.Duration(asked.WaitMs) * time.Millisecond
	}
	sections, failed := make([][]section, threads), make([][]string, threads)
	var running sync.WaitGroup
	for i := range threads {
		name := asked.Lock
		if asked.Own {
			name += fmt.Sprint(i)
		}
		lock := loops.lock(name, i)
		running.Go(func() {
			time.Sleep(time.Duration(asked.StartNs - now()))
			for turn := 0; (asked.Count > 0 && turn < asked.Count) || (asked.Count == 0 && now() < asked.StopNs); turn++ {
				from := now()
				if err := lock.must(wait); err != nil {
					failed[i] = append(failed[i], told(err))
					continue
				}
				entered := now()
				if asked.HoldUs > 0 {
					time.Sleep(time.Duration(asked.HoldUs) * time.Microsecond)
				}
				left := now()
				ended := int64(0)
				if err := lock.release(); err != nil {
					failed[i] = append(failed[i], told(err))
				} else {
					ended = now()
				}
				sections[i] = append(sections[i], section{int64(i), from, entered, left, ended})
			}
		})
	}
	running.Wait()
	all, errs := []section{}, []string{}
	for i := range threads {
		all, errs = append(all, sections[i]...), append(errs, failed[i]...)
	}
	return reply{"sections": all, "errors": errs}
}
