/* Preloaded into one server: its wall clock is what a mapped file says. Its monotonic clock stays true.
 *
 * The file holds what `struct setting` says; tests/faults/clock.py writes it while the server runs.
 * Nothing here allocates memory: allocators ask for the time before they are ready. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct setting {
    uint64_t version; /* odd while it is being written */
    int64_t real_at;  /* ns: from this instant of the true clock on ... */
    int64_t shown_at; /* ns: ... the server sees this one ... */
    double rate;      /* ... and time that runs so fast */
};

static const volatile struct setting *setting;

static void find_setting(void)
{
    const char *path = getenv("RLOCK_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct setting), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        setting = mapped;
}

static int64_t shown(int64_t real)
{
    if (!setting)
        find_setting();
    if (!setting)
        return real;
    for (;;) {
        uint64_t version = __atomic_load_n(&setting->version, __ATOMIC_ACQUIRE);
        int64_t told = setting->shown_at + (int64_t)((real - setting->real_at) * setting->rate);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (version % 2 == 0 && version == __atomic_load_n(&setting->version, __ATOMIC_RELAXED))
            return told;
    }
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    int result = (int)syscall(SYS_clock_gettime, id, ts);
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t now = shown(ts->tv_sec * 1000000000LL + ts->tv_nsec);
        ts->tv_sec = now / 1000000000LL;
        ts->tv_nsec = now % 1000000000LL;
    }
    return result;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    struct timespec ts;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &ts);
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
    return result;
}

time_t time(time_t *out)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    if (out)
        *out = ts.tv_sec;
    return ts.tv_sec;
}
