#pragma once
/*
 * System calls that Debian 12's C library has no wrapper for, and those whose flags its headers
 * lack. Each returns what the call returns, or -errno.
 */
#include <linux/mount.h>
#include <linux/sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

int sys_open_tree(int dirfd, const char *path, unsigned flags); /* open_tree(2) */
int sys_move_mount(int from_fd, const char *from, int to_fd, const char *to, unsigned flags); /* move_mount(2) */
int sys_fsopen(const char *fs, unsigned flags);                                         /* fsopen(2) */
int sys_fsconfig(int fd, unsigned cmd, const char *key, const char *value, int aux); /* fsconfig(2) */
int sys_fsmount(int fd, unsigned flags, unsigned attrs);                            /* fsmount(2) */
int sys_mount_setattr(int fd, unsigned flags, uint64_t set, uint64_t clear, int userns_fd); /* mount_setattr(2), AT_EMPTY_PATH */
int sys_mount_private(int fd, unsigned flags); /* mount_setattr(2): propagation MS_PRIVATE */
int sys_pivot_root(const char *new_root, const char *put_old);                      /* pivot_root(2) */
int sys_openat2(int dirfd, const char *path, uint64_t flags, uint64_t resolve); /* openat2(2) */
int sys_pidfd_open(pid_t pid);                                                      /* pidfd_open(2) */
int sys_pidfd_send_signal(int pidfd, int sig);
pid_t sys_clone3(struct clone_args *args); /* clone3(2) */
int sys_execveat(int fd, char *const argv[], char *const envp[]); /* execveat(2) of the file itself */
int sys_exchange(const char *a, const char *b); /* renameat2(2), RENAME_EXCHANGE */
int sys_close_range(unsigned first, unsigned last, unsigned flags); /* close_range(2) */

