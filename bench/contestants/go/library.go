package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
)

// patience is how long one acquire may wait, unless the request says.
const patience = 10 * time.Second

// Library is redsync, with one go-redis client at its defaults for each master.
type Library struct {
	version string
	redsync *redsync.Redsync
	options []redsync.Option
}

// open connects. Redsync's default is to wait for the replies of all masters, and to look for a free lock after
// 50 to 250 ms, at random; pollMs is the mean of as wide a range.
func open(masters []string, ttlMs int64, pollMs *float64, failFast bool) (*Library, error) {
	// It logs each failed attempt to connect; the reply has the reason.
	log.SetOutput(io.Discard)
	goredislib.SetLogger(silence{})
	var pools []redis.Pool
	var clients []*goredislib.Client
	for _, url := range masters {
		options, err := goredislib.ParseURL(url)
		if err != nil {
			return nil, err
		}
		client := goredislib.NewClient(options)
		clients = append(clients, client)
		pools = append(pools, goredis.NewPool(client))
	}
	if err := reached(clients); err != nil {
		return nil, err
	}
	library := &Library{
		version: fmt.Sprintf("%s (go-redis %s)", version("github.com/go-redsync/redsync/v4"), goredislib.Version()),
		redsync: redsync.New(pools...),
		// Its default of 32 tries ends after 5 s; the context of an acquire says when it is to end.
		options: []redsync.Option{
			redsync.WithExpiry(time.Duration(ttlMs) * time.Millisecond),
			redsync.WithTries(math.MaxInt),
		},
	}
	if pollMs != nil {
		mean := *pollMs * float64(time.Millisecond)
		library.options = append(library.options, redsync.WithRetryDelayFunc(func(int) time.Duration {
			return time.Duration(mean * (1 + (rand.Float64()*2-1)*2/3))
		}))
	}
	if failFast {
		library.options = append(library.options, redsync.WithFailFast(true))
	}
	return library, nil
}

// reached asks all masters for a sign of life; a minority of them may be away.
func reached(clients []*goredislib.Client) error {
	faults := make(chan error, len(clients))
	for _, client := range clients {
		go func() {
			within, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			faults <- client.Ping(within).Err()
		}()
	}
	var away []error
	for range clients {
		if err := <-faults; err != nil {
			away = append(away, err)
		}
	}
	if len(away)*2 >= len(clients) {
		return fmt.Errorf("%d of %d masters cannot be reached: %w", len(away), len(clients), away[0])
	}
	return nil
}

// mutex is one lock of one goroutine.
type mutex struct {
	*redsync.Mutex
}

func (library *Library) lock(name string) *mutex {
	return &mutex{library.redsync.NewMutex(name, library.options...)}
}

// acquire says whether it was acquired; an error that is not "somebody else has it" is one. A negative wait has no end.
func (lock *mutex) acquire(wait time.Duration) (bool, error) {
	within, cancel := context.Background(), func() {}
	if wait >= 0 {
		within, cancel = context.WithTimeout(within, wait)
	}
	defer cancel()
	err := lock.LockContext(within)
	if err == nil {
		return true, nil
	}
	var taken *redsync.ErrTaken
	var fault *redsync.RedisError
	if errors.As(err, &fault) && !errors.As(err, &taken) {
		return false, err
	}
	// At the end of a context it is ErrFailed, whatever the masters said.
	return false, nil
}

func (lock *mutex) must(wait time.Duration) error {
	acquired, err := lock.acquire(wait)
	if err == nil && !acquired {
		err = fmt.Errorf("not acquired within %v", wait)
	}
	return err
}

func (lock *mutex) release() error {
	released, err := lock.Unlock()
	switch {
	case released: // by a quorum; the error is that of a minority
		return nil
	case err == nil:
		return errors.New("not released")
	}
	return err
}

// version of a module, as it was built in.
func version(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == path {
				return strings.TrimPrefix(module.Version, "v")
			}
		}
	}
	return "?"
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
