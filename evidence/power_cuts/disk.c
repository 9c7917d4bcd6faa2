/* Preloaded into one server: notes which bytes a power cut would leave on its disk.
 *
 * A killed server loses nothing that it wrote: the kernel still has it. A power cut loses what was not synced. So
 * fsync and fdatasync write a line into the file RLOCK_TEST_DISK/log, and evidence/power_cuts/disk.py drops the rest after
 * the kill. Nothing goes to the real disk: SIGKILL leaves the kernel's memory alone, and a real sync only takes time.
 *
 *   file <inode> <length>    all bytes of this file up to here are on the disk
 *   folder <path>            the names in this folder are on the disk, and each has a line:
 *   entry <inode> <name>
 *   early                    a reply was sent while bytes of the append-only file were not synced
 *
 * sync_file_range is no sync: it does not wait for the disk's own cache, and leaves out the length of the file. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The append-only file that was written last, its length, and the length that is on the disk. No other file is
 * written through write(): snapshots, manifests and the server's log go through stdio. */
static volatile unsigned long current;
static volatile long written, durable;

static void note(const char *line)
{
    char path[PATH_MAX];
    const char *folder = getenv("RLOCK_TEST_DISK");
    if (!folder)
        return;
    snprintf(path, sizeof path, "%s/log", folder);
    int log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    /* One call for each line: the server's threads and its child that rewrites the file note here, too. */
    syscall(SYS_write, log, line, strlen(line));
    close(log);
}

/* A second name for the file keeps its content when the server renames or unlinks it, and keeps its inode's
 * number from being used again. */
static void keep(const char *file, unsigned long inode)
{
    char kept[PATH_MAX];
    const char *folder = getenv("RLOCK_TEST_DISK");
    snprintf(kept, sizeof kept, "%s/%lu", folder ? folder : ".", inode);
    linkat(AT_FDCWD, file, AT_FDCWD, kept, AT_SYMLINK_FOLLOW);
}

static void note_folder(const char *path)
{
    char lines[1 << 16], file[2 * PATH_MAX];
    DIR *folder = opendir(path);
    size_t length = snprintf(lines, sizeof lines, "folder %s\n", path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_type != DT_REG)
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        keep(file, entry->d_ino);
        length += snprintf(lines + length, sizeof lines - length, "entry %lu %s\n",
                           (unsigned long)entry->d_ino, entry->d_name);
    }
    /* All names in one call: a kill between two would leave half a folder. */
    note(lines);
    if (folder)
        closedir(folder);
}

static int synced(int fd)
{
    char file[64], text[PATH_MAX];
    struct stat found;
    /* The length at the begin of the sync: bytes that another thread writes meanwhile may miss it. */
    if (fstat(fd, &found) != 0)
        return -1;
    snprintf(file, sizeof file, "/proc/self/fd/%d", fd);
    if (S_ISDIR(found.st_mode)) {
        ssize_t length = readlink(file, text, sizeof text - 1);
        text[length < 0 ? 0 : length] = 0;
        note_folder(text);
    } else {
        keep(file, found.st_ino);
        snprintf(text, sizeof text, "file %lu %ld\n", (unsigned long)found.st_ino, (long)found.st_size);
        note(text);
        if (found.st_ino == current && found.st_size > durable)
            durable = found.st_size;
    }
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

static void look_at(int fd, ssize_t length)
{
    struct stat found;
    if (fd <= 2 || length <= 0 || fstat(fd, &found) != 0)
        return;
    if (S_ISREG(found.st_mode)) {
        if (current != found.st_ino)
            durable = 0;
        current = found.st_ino;
        written = found.st_size;
    } else if (S_ISSOCK(found.st_mode) && durable < written) {
        note("early\n");
    }
}

ssize_t write(int fd, const void *data, size_t length)
{
    ssize_t written = syscall(SYS_write, fd, data, length);
    look_at(fd, written);
    return written;
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    ssize_t written = syscall(SYS_writev, fd, parts, count);
    look_at(fd, written);
    return written;
}
