/* Preloaded into one server: notes which bytes a power cut would leave on its disk.
 *
 * A killed server loses nothing that it wrote: the kernel still has it. A power cut loses what was not synced. So
 * fsync and fdatasync write a line into the file RLOCK_TEST_DISK/log, and `Disk` of __main__.py drops the rest after
 * the kill. Nothing goes to the real disk: SIGKILL leaves the kernel's memory alone, and a real sync only takes time.
 *
 *   <inode> <length>    all bytes of this file up to here are on the disk
 *
 * sync_file_range is no sync: it does not wait for the disk's own cache, and leaves out the length of the file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int synced(int fd)
{
    char file[64], kept[PATH_MAX], line[64];
    const char *folder = getenv("RLOCK_TEST_DISK");
    struct stat found;
    /* The length at the begin of the sync: bytes that another thread writes meanwhile may miss it. */
    if (fstat(fd, &found) != 0)
        return -1;
    if (!folder || !S_ISREG(found.st_mode))
        return 0;
    /* A second name for the file keeps its inode's number from being used again. */
    snprintf(file, sizeof file, "/proc/self/fd/%d", fd);
    snprintf(kept, sizeof kept, "%s/%lu", folder, (unsigned long)found.st_ino);
    linkat(AT_FDCWD, file, AT_FDCWD, kept, AT_SYMLINK_FOLLOW);
    snprintf(line, sizeof line, "%lu %ld\n", (unsigned long)found.st_ino, (long)found.st_size);
    snprintf(kept, sizeof kept, "%s/log", folder);
    int log = open(kept, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    /* One call for each line: the server's threads and its child that rewrites the file note here, too. */
    if (write(log, line, strlen(line)) < 0)
        abort();
    close(log);
    return 0;
}

int fsync(int fd)
{
    return synced(fd);
}

int fdatasync(int fd)
{
    return synced(fd);
}
